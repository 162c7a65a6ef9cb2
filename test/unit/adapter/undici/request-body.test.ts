import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { lastingBodyOf } from '../../../../src/adapter/undici/request-body.js';
import { isRepeatable } from '../../../../src/adapter/undici/request-options.js';

/** As if every method were named in `retry.methods`. */
const retries = { methods: { has: () => true } } as never;
const get = { path: '/', method: 'GET' } as const;

describe('requests that can be sent twice', () => {
  it.each([
    get,
    { ...get, body: null },
    { ...get, body: 'text' },
    { ...get, body: new Uint8Array(3) },
    { ...get, body: Buffer.from('text') },
    { ...get, method: 'POST', body: '' },
  ])('include %j', (options) => {
    expect(isRepeatable(options as never, retries)).toBe(true);
  });

  it.each([
    ['what the caller says is not', { ...get, idempotent: false }],
    ['an upgrade', { ...get, upgrade: 'websocket' }],
    ['a tunnel: its connection is the caller’s own', { ...get, method: 'CONNECT' }],
    ['a stream', { ...get, body: Readable.from(['a']) }],
    ['what is iterated over', { ...get, body: (async function* () {})() }],
  ])('do not include %s', (_what, options) => {
    expect(isRepeatable(options as never, retries)).toBe(false);
  });
});

describe('a body of fetch that can be sent again', () => {
  it.each([
    ['text', 'text'],
    ['fields', new URLSearchParams({ a: 'b c', d: 'é' })],
    ['bytes', Buffer.from('text')],
    ['a view of a part', new Uint16Array(new Uint8Array([1, 2, 3, 4, 5, 6]).buffer, 2, 1)],
    ['a buffer', new Uint8Array([1, 2, 3]).buffer],
  ])('is %s, with the bytes that fetch sends', async (_what, body) => {
    const sent = Buffer.from(await new Response(body).arrayBuffer());
    expect(Buffer.from(lastingBodyOf(body) as string)).toEqual(sent);
  });

  it('does not change when the caller reuses its buffer', () => {
    const bytes = Buffer.from('one');
    const body = lastingBodyOf(bytes);
    bytes.write('two');
    expect(String(body)).toBe('one');
  });

  it.each([undefined, null, new Blob(['text']), new FormData(), new Response('text').body])('is not %s', (body) => {
    expect(lastingBodyOf(body)).toBeUndefined();
  });
});
