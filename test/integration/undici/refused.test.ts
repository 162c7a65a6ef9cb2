import { staticEndpoints, without } from 'evenkeel';
import { createDispatcher, type ServiceDispatcher } from 'evenkeel/undici';
import * as undici from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import { Pods } from '../../support/pods/pods.js';

const origin = 'http://orders.shop:8080';

let pods: Pods;
let dispatcher: ServiceDispatcher;

beforeEach(async () => {
  pods = await Pods.start(1);
  dispatcher = createDispatcher(origin, {
    resolver: staticEndpoints(pods.endpoints),
    stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
    connections: 2,
  });
  await connected(dispatcher.balancer, 1);
});
afterEach(async () => {
  await dispatcher.destroy();
  await pods[Symbol.asyncDispose]();
});

describe('requests that undici refuses before it sends them', () => {
  it.each([
    ['a header with a line break', { path: '/', headers: { 'x-user': 'a\r\nb' } }],
    ['a header undici does not send', { path: '/', headers: { 'transfer-encoding': 'chunked' } }],
    ['a path with a space', { path: '/a b' }],
    ['no path', { path: '*' }],
  ])('%s leave the connection to later requests', async (_what, refused) => {
    for (let count = 0; count < 5; count++) {
      await expect(dispatcher.request({ method: 'GET', ...refused })).rejects.toMatchObject({
        code: 'UND_ERR_INVALID_ARG',
      });
    }
    const answers = await Promise.all(
      ['/', '/', '/', '/'].map(async (path) => {
        const { statusCode, body } = await dispatcher.request({ path, method: 'GET' });
        await body.dump();
        return statusCode;
      }),
    );
    expect(answers).toEqual([200, 200, 200, 200]);
    expect(dispatcher.balancer.snapshot().endpoints[0]?.inFlight).toBe(0);
  });

  it.each(['http://other:99999/x', 'http://[other/x', 'HTTPS://other:port/'])(
    'by an invalid absolute URL, %s, reach no pod',
    async (path) => {
      await expect(dispatcher.request({ origin, path, method: 'GET' })).rejects.toMatchObject({
        code: 'UND_ERR_INVALID_ARG',
      });
      expect(dispatcher.balancer.snapshot().endpoints[0]?.started).toBe(0);
    },
  );
});

/** What a dispatcher tells a handler, or throws. */
function refusalBy(to: undici.Dispatcher, options: object, methods: object): unknown[] {
  const told: unknown[] = [];
  const say = (error: Error & { readonly code?: string }): void => void told.push(error.code, error.message);
  const handler =
    'told' in methods ? { ...methods, [String(methods.told)]: (...values: Error[]) => say(values.at(-1)!) } : methods;
  try {
    to.dispatch(options as never, handler);
  } catch (error) {
    say(error as Error);
    told.push('thrown');
  }
  return told;
}

const modern = {
  told: 'onResponseError',
  onRequestStart() {},
  onResponseStart() {},
  onResponseData() {},
  onResponseEnd() {},
};
const legacy = { told: 'onError', onConnect() {}, onHeaders: () => true, onData: () => true, onComplete() {} };
const get = { origin, path: '/', method: 'GET' };

describe('a handler and options that are both invalid', () => {
  const oneOf8 = 'Dispatcher1Wrapper' in undici;
  const wrong: [what: string, options: object, methods: object][] = [
    ['options first, for a handler without methods', { ...get, upgrade: 1 }, {}],
    ['options first, for one that can only be told', { ...get, headersTimeout: 'long' }, { told: 'onResponseError' }],
    ['onRequestStart is missing', get, { told: 'onResponseError' }],
    ['onBodySent is no function', get, { ...modern, onBodySent: '42' }],
    ['onRequestSent is no function', get, { ...modern, onRequestSent: 1 }],
    [
      'onBodySent is no function, before one that is missing',
      get,
      { ...modern, onBodySent: '42', onResponseEnd: undefined },
    ],
    ['nothing for the answer', get, { ...modern, onResponseStart: undefined }],
    ['upgrade without a method', { ...get, upgrade: 'echo' }, modern],
    ['options first, the older form', { ...get, bodyTimeout: -1 }, { told: 'onError', onConnect() {} }],
    ['onBodySent is no function, the older form', get, { ...legacy, onBodySent: '42' }],
  ];
  // undici 7 looks at no method of the newer form.
  const seen = wrong.filter(([, , methods]) => oneOf8 || !('onRequestStart' in methods));
  it.each(seen)("are refused with undici's errors: %s", async (what, options, methods) => {
    const stock = new undici.Pool(origin, { connect: (_options, dialled) => dialled(new Error('connects'), null) });
    const theirs = refusalBy(stock, options, methods);
    const ours = refusalBy(dispatcher, options, methods);
    await stock.destroy();
    if (oneOf8 && what.endsWith('the older form')) {
      // undici 8 takes no handler of the older form; ours do.
      expect(ours).toEqual(['UND_ERR_INVALID_ARG', expect.stringMatching(/^invalid (bodyTimeout|onBodySent method)$/)]);
    } else expect(ours).toEqual(theirs);
    expect(dispatcher.balancer.snapshot().endpoints[0]?.inFlight).toBe(0);
  });
});

describe('a handler that throws when it is given an error', () => {
  const thrower = (abortAt: (abort: () => void) => void): object => ({
    ...modern,
    told: undefined,
    onRequestStart(controller: { abort(reason?: Error): void }) {
      abortAt(() => controller.abort(new Error('the reason')));
    },
    onResponseError() {
      throw new Error('thrown by the handler');
    },
  });

  it.each(['from within its own abort', 'from an abort while it waits', 'at destroy'])(
    'emits `error` on the dispatcher, and disturbs nothing else: %s',
    async (when) => {
      const errors: Error[] = [];
      dispatcher.on('error' as never, ((error: Error) => errors.push(error)) as never);
      await pods.all[0]!.behave({ delayMs: 3_600_000 });
      // Both connections are taken: what follows waits.
      const running = [1, 2].map(() => dispatcher.request({ path: '/', method: 'GET' }).catch(() => {}));
      let abort: (() => void) | undefined;
      const handler = thrower((now) => {
        abort = now;
        if (when === 'from within its own abort') now();
      });
      dispatcher.dispatch(get as never, handler);
      const others = [1, 2].map(() => dispatcher.request({ path: '/', method: 'GET' }).catch((error: Error) => error));
      if (when === 'from an abort while it waits') abort?.();
      await Promise.resolve();
      if (when !== 'at destroy') expect(errors.map(({ message }) => message)).toEqual(['thrown by the handler']);
      await dispatcher.destroy(new Error('the end'));
      await Promise.all(running);
      expect((await Promise.all(others)).map((error) => (error as Error).message)).toEqual(['the end', 'the end']);
      expect(errors.map(({ message }) => message)).toEqual(['thrown by the handler']);
    },
  );
});
