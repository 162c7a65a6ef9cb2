import * as undici from 'undici';
import { afterEach, describe, expect, it } from 'vitest';
import { appInterceptor, createAppAgent, createDispatcher } from '../../../../src/adapter/undici/index.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../../src/testing/fake-resolver.js';
import { FakeDnsClient } from '../../../support/fixtures/fake-dns-client.js';

const origin = 'http://orders.shop:8080';
const get = { origin, path: '/', method: 'GET' } as const;

/** What undici refuses at `dispatch`. */
const refused: readonly (readonly [string, object])[] = [
  ['a header with a line break', { headers: { 'x-user': 'a\r\nb' } }],
  ['a list of headers that is odd', { headers: ['x-user'] }],
  ['a Connection header that is no token', { headers: { connection: 'keep alive' } }],
  ['a header it does not send', { headers: { 'transfer-encoding': 'chunked' } }],
  ['a header it does not support', { headers: { expect: '100-continue' } }],
  ['a path with a space', { path: '/a b' }],
  ['no path', { path: undefined }],
  ['a method that is none', { method: 'GE T' }],
  ['a body that is none', { method: 'POST', body: { a: 1 } }],
  ['a timeout that is none', { headersTimeout: -1 }],
  ['a query beside that of the path', { path: '/?a=1', query: { b: 2 } }],
];

let ending: { destroy(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of ending) await each.destroy();
  ending = [];
});
const keep = <T extends { destroy(): Promise<void> }>(made: T): T => {
  ending.push(made);
  return made;
};

/** Dispatchers whose requests would wait, for ever: for a pod, or for DNS. */
const silentDns = () => {
  const dns = new FakeDnsClient();
  dns.answers['A orders.shop.svc.cluster.local.'] = new Promise<never>(() => {});
  return { clock: new FakeClock(), discovery: { dns: { client: () => dns, clusterDomain: 'cluster.local' } } };
};
const waiting: readonly (readonly [string, () => undici.Dispatcher])[] = [
  ['for a pod', () => keep(createDispatcher(origin, { resolver: new FakeResolver(), clock: new FakeClock() }))],
  [
    'for a pod, and may have several answers',
    () =>
      keep(
        createDispatcher(origin, { resolver: new FakeResolver(), clock: new FakeClock(), retry: { statuses: [503] } }),
      ),
  ],
  ['for DNS', () => keep(createAppAgent(silentDns()))],
  ['for DNS, by an interceptor', () => new undici.Agent().compose(keep(appInterceptor(silentDns())))],
];

describe.each(waiting)('a request that would wait %s', (_where, make) => {
  it.each(refused)('is refused at once for %s, with the error of undici', async (_what, fault) => {
    const ours = await make()
      .request({ ...get, ...fault } as never)
      .catch((error) => error);
    const stock = new undici.Pool(origin, {
      connect: (_options, dialled) => dialled(new Error('connects'), null),
    });
    const theirs = await stock.request({ ...get, ...fault } as never).catch((error) => error);
    expect(theirs.message).not.toBe('connects');
    expect([ours.name, ours.code, ours.message]).toEqual([theirs.name, theirs.code, theirs.message]);
    await stock.destroy();
  });
});

// What undici's `compose` hands an interceptor has every method.
describe.each(waiting.slice(0, -1))('a request that would wait %s', (_where, make) => {
  it('is refused with a handler that has no methods for errors', () => {
    const dispatcher = make();
    expect(() => dispatcher.dispatch(get, {})).toThrow(undici.errors.InvalidArgumentError);
    expect(() => dispatcher.dispatch(get, { onConnect() {} } as never)).toThrow(undici.errors.InvalidArgumentError);
  });

  it('is refused with a handler of the older form that receives no response', () => {
    const dispatcher = make();
    const methods = { onConnect() {}, onHeaders: () => true, onData: () => true, onComplete() {} };
    for (const missing of ['onHeaders', 'onData', 'onComplete']) {
      const told: Error[] = [];
      const handler = { ...methods, [missing]: undefined, onError: (error: Error) => told.push(error) };
      dispatcher.dispatch(get, handler as never);
      expect(told).toEqual([expect.objectContaining({ message: `invalid ${missing} method` })]);
    }
  });
});

it('a valid request waits, and its body is left alone', async () => {
  const dispatcher = keep(createDispatcher(origin, { resolver: new FakeResolver(), clock: new FakeClock() }));
  const { Readable } = await import('node:stream');
  const body = Readable.from(['a']);
  const answer = dispatcher.request({ ...get, method: 'POST', body });
  expect(dispatcher.balancer.snapshot().waiting).toBe(1);
  expect(body.listenerCount('error')).toBe(1);
  const ended = dispatcher.destroy();
  await expect(answer).rejects.toThrow();
  await ended;
});
