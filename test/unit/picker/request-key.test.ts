import { ClientRequest } from 'node:http';
import { describe, expect, it } from 'vitest';
import * as keys from '../../../src/picker/request-key.js';

/** What `key` reads of a request to undici with these headers. */
const read = (key: ReturnType<typeof keys.headerKey>, headers: unknown): unknown =>
  key({ path: '/', method: 'GET', headers } as never);

const forms: Record<string, (pairs: readonly (readonly [string, string])[]) => unknown> = {
  'an object': (pairs) => Object.fromEntries(pairs),
  'a flat list': (pairs) => pairs.flat(),
  'a flat list of buffers': (pairs) => pairs.flat().map((text) => Buffer.from(text)),
  Headers: (pairs) => new Headers(pairs.map(([name, value]) => [name, value])),
  'a Map': (pairs) => new Map(pairs),
  'a Set of pairs': (pairs) => new Set(pairs),
};

describe.each(Object.entries(forms))('the key of an undici request whose headers are %s', (_form, made) => {
  it('is the value of a header, in whatever case', () => {
    const headers = made([
      ['accept', '*/*'],
      ['X-User', 'ann'],
    ]);
    expect(read(keys.headerKey('x-user'), headers)).toBe('ann');
    expect(read(keys.headerKey('X-USER'), headers)).toBe('ann');
    expect(read(keys.headerKey('x-tenant'), headers)).toBeUndefined();
  });

  it('is the value of a cookie', () => {
    const headers = made([['cookie', 'theme=dark; xsession=no; session="a=b"; session=late; broken']]);
    expect(read(keys.cookieKey('session'), headers)).toBe('a=b');
    expect(read(keys.cookieKey('theme'), headers)).toBe('dark');
    for (const name of ['Session', 'broken', 'dark']) expect(read(keys.cookieKey(name), headers)).toBeUndefined();
  });
});

describe('the key of an undici request', () => {
  it.each([undefined, null, {}, [], 'x-user: ann', [['x-user', 'ann']], { 'x-user': undefined }, { 'x-user': null }])(
    'is undefined with headers of %j',
    (headers) => {
      expect(read(keys.headerKey('x-user'), headers)).toBeUndefined();
      expect(read(keys.cookieKey('session'), headers)).toBeUndefined();
    },
  );

  it('has all values of a header that is repeated', () => {
    expect(read(keys.headerKey('x-user'), { 'x-user': ['a', 'b'] })).toBe('a, b');
    expect(read(keys.headerKey('x-user'), ['x-user', 'a', 'X-User', 'b'])).toBe('a, b');
    expect(read(keys.cookieKey('c'), { cookie: ['a=1', 'c=2'] })).toBe('2');
  });
});

describe('the key of a request over node:http', () => {
  const outgoing = (headers: Record<string, string | string[] | number>): ClientRequest => {
    const request = new ClientRequest({
      host: '127.0.0.1',
      port: 9,
      createConnection: () => undefined as never,
      headers,
    });
    request.on('error', () => {}).destroy();
    return request;
  };

  it('is the value of a header or a cookie', () => {
    const request = outgoing({ 'X-User': 'ann', 'x-shard': 7, 'x-list': ['a', 'b'], Cookie: 'a=1; session=xyz' });
    expect(keys.headerKey('x-user')(request)).toBe('ann');
    expect(keys.headerKey('X-Shard')(request)).toBe('7');
    expect(keys.headerKey('x-list')(request)).toBe('a, b');
    expect(keys.headerKey('x-none')(request)).toBeUndefined();
    expect(keys.cookieKey('session')(request)).toBe('xyz');
    expect(keys.cookieKey('none')(request)).toBeUndefined();
  });
});

it.each([undefined, '', 5, null])('with the name %j is refused', (name) => {
  for (const make of [keys.headerKey, keys.cookieKey]) {
    expect(() => make(name as never)).toThrowError(expect.objectContaining({ code: 'EVENKEEL_OPTION' }));
  }
});
