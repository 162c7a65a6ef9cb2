import { type Dispatcher, errors } from 'undici';
import { describe, expect, it } from 'vitest';
import { appInterceptor, createAppAgent, createDispatcher } from '../../../../src/adapter/undici/index.js';
import { staticEndpoints } from '../../../../src/resolver/static.js';

const origin = 'http://orders.shop:8080';
const resolver = staticEndpoints([{ address: '127.0.0.1', port: 1 }]);
const shared = { services: ['orders.shop'], options: () => ({ resolver }) };

/** What undici's own dispatchers refuse is refused by those of ours, in the same way. */
describe.each<[string, () => Pick<Dispatcher, 'dispatch' | 'destroy'>]>([
  ['createDispatcher', () => createDispatcher(origin, { resolver })],
  ['createAppAgent', () => createAppAgent(shared)],
  [
    'appInterceptor',
    () => {
      const interceptor = appInterceptor(shared);
      return { dispatch: interceptor(() => true), destroy: () => interceptor.destroy() } as never;
    },
  ],
])('dispatch of %s', (_name, make) => {
  const get = { origin, path: '/', method: 'GET' } as const;

  it('throws without a handler', async () => {
    const dispatcher = make();
    for (const none of [undefined, null, 'handler']) {
      expect(() => dispatcher.dispatch(get, none as never)).toThrow();
    }
    await dispatcher.destroy();
  });

  it('reports invalid options to a handler of either form', async () => {
    const dispatcher = make();
    for (const none of [undefined, null, 5]) {
      const told: unknown[] = [];
      const modern = { onRequestStart() {}, onResponseError: (_controller: unknown, error: Error) => told.push(error) };
      const legacy = { onConnect() {}, onError: (error: Error) => told.push(error) };
      dispatcher.dispatch(none as never, modern);
      dispatcher.dispatch(none as never, legacy as never);
      expect(told).toEqual([expect.any(errors.InvalidArgumentError), expect.any(errors.InvalidArgumentError)]);
    }
    await dispatcher.destroy();
  });

  it.each([
    { ...get, upgrade: 'echo' },
    { ...get, method: 'CONNECT' },
  ])('starts no upgrade for a handler that cannot receive one: %j', async (options) => {
    const dispatcher = make();
    let started = 0;
    const told: unknown[] = [];
    const onRequestStart = (): void => {
      started++;
    };
    dispatcher.dispatch(options as never, {
      onRequestStart,
      onResponseError: (_controller, error) => told.push(error),
    });
    expect(told).toEqual([expect.any(errors.InvalidArgumentError)]);
    expect(started).toBe(0);
    await dispatcher.destroy();
  });
});

it('request with `upgrade` is refused, as by undici: its result could not be delivered', async () => {
  const dispatcher = createDispatcher(origin, { resolver });
  const answer = dispatcher.request({ origin, path: '/', method: 'GET', upgrade: 'echo' } as never);
  await expect(answer).rejects.toBeInstanceOf(errors.InvalidArgumentError);
  await dispatcher.destroy();
});
