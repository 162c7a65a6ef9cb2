import { once } from 'node:events';
import { type Balancer, staticEndpoints } from 'evenkeel';
import { type AppInterceptor, appInterceptor, createAppAgent, createDispatcher } from 'evenkeel/undici';
import * as undici from 'undici';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Pod, Pods } from '../../support/pods/pods.js';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';
import { version } from './support/version.js';

const origin = 'http://orders.shop:8080';
type Interceptors = typeof undici.interceptors;
/** undici's own, which the oldest supported version has not all. */
const has = (name: keyof Interceptors): boolean => typeof undici.interceptors[name] === 'function';

let pods: Pods;
let outside: Pod;
let subject: undici.Dispatcher;
let balancers: () => Iterable<Balancer<unknown>>;
let interceptor: AppInterceptor | undefined;

beforeAll(async () => {
  [pods, outside] = await Promise.all([Pods.start(2), Pod.start({ name: 'outside' })]);
});
afterAll(async () => {
  await pods[Symbol.asyncDispose]();
  await outside.kill();
});

const resolver = () => staticEndpoints(pods.endpoints);
const services = ['orders.shop'];
/** How each is made, and how many requests run on its pods. */
const subjects: Record<string, () => { dispatcher: undici.Dispatcher; balancers: () => Iterable<Balancer<unknown>> }> =
  {
    createDispatcher: () => {
      const dispatcher = createDispatcher(origin, { resolver: resolver() });
      return { dispatcher, balancers: () => [dispatcher.balancer] };
    },
    createAppAgent: () => {
      const dispatcher = createAppAgent({ services, options: () => ({ resolver: resolver() }) });
      return { dispatcher, balancers: () => dispatcher.balancers.values() };
    },
    'an Agent with appInterceptor': () => {
      const made = appInterceptor({ services, options: () => ({ resolver: resolver() }) });
      interceptor = made;
      return { dispatcher: new undici.Agent().compose(made), balancers: () => made.balancers.values() };
    },
  };

describe.each(Object.entries(subjects))('%s', (_name, make) => {
  beforeEach(async () => {
    for (const pod of [...pods.all, outside]) await pod.behave({ status: 200, headers: {}, connection: 'keep-alive' });
    ({ dispatcher: subject, balancers } = make());
  });
  afterEach(async () => {
    await subject.close();
    await interceptor?.close();
    interceptor = undefined;
    await until(
      'every connection is closed',
      async () => (await pods.total('open')) + (await outside.stats()).open === 0,
    );
  });

  const get = (dispatcher: undici.Dispatcher, path: string, more: object = {}) =>
    dispatcher.request({ origin, path, method: 'GET', ...more });

  it('compose: the pods get the request with what an interceptor added', async () => {
    const added = subject.compose((dispatch) => (options, handler) => {
      return dispatch({ ...options, headers: { ...(options.headers as object), 'x-added': 'yes' } }, handler);
    });
    const { body } = await get(added, '/', { headers: { 'x-own': '1' } });
    expect(await body.json()).toMatchObject({
      pod: expect.stringMatching(/^pod-/),
      headers: { host: 'orders.shop:8080', 'x-added': 'yes', 'x-own': '1' },
    });
  });

  it('RetryAgent: a 503 is retried', async () => {
    const before = await pods.total('requests');
    for (const pod of pods.all) await pod.behave({ status: 503 });
    const agent = new undici.RetryAgent(subject, { maxRetries: 10_000, minTimeout: 1, maxTimeout: 5 });
    const answer = get(agent, '/');
    await until('it was tried twice', async () => (await pods.total('requests')) >= before + 2);
    for (const pod of pods.all) await pod.behave({ status: 200 });
    const { statusCode, body } = await answer;
    expect(statusCode).toBe(200);
    expect(await body.json()).toMatchObject({ pod: expect.stringMatching(/^pod-/) });
  });

  it('interceptors.retry: works over it', async () => {
    const before = await pods.total('requests');
    const composed = subject.compose(undici.interceptors.retry({ maxRetries: 2, minTimeout: 1, timeoutFactor: 1 }));
    const error = await get(composed, '/status/503').catch((caught: unknown) => caught);
    expect(error).toMatchObject({ statusCode: 503 });
    expect((await pods.total('requests')) - before).toBe(3);
  });

  it('interceptors.redirect: follows to a pod, and to another host without the credentials', async () => {
    const composed = subject.compose(undici.interceptors.redirect({ maxRedirections: 3 }));
    const home = await get(composed, `/redirect?to=${origin}/home`);
    expect(await home.body.json()).toMatchObject({ pod: expect.stringMatching(/^pod-/), url: '/home' });
    const away = await get(composed, `/redirect?to=http://127.0.0.1:${outside.port}/away`, {
      headers: { authorization: 'only for orders' },
    });
    expect(await away.body.json()).toMatchObject({ pod: 'outside', url: '/away' });
    expect((await outside.stats()).authorized).toBe(0);
  });

  it('interceptors.dump: bodies are discarded, and nothing keeps running', async () => {
    const composed = subject.compose(undici.interceptors.dump({ maxSize: 2_000_000 }));
    for (let request = 0; request < 20; request++) {
      const { statusCode } = await get(composed, '/bytes/1000000');
      expect(statusCode).toBe(200);
    }
    await until('nothing runs', () =>
      [...balancers()].every((balancer) => balancer.snapshot().endpoints.every(({ inFlight }) => inFlight === 0)),
    );
  });

  it('interceptors.responseError: a response of 400 and above is an error that contains its body', async () => {
    const composed = subject.compose(undici.interceptors.responseError());
    await expect(get(composed, '/status/404')).rejects.toMatchObject({ statusCode: 404, body: 'status 404' });
    expect((await get(composed, '/')).statusCode).toBe(200);
  });

  it.runIf(has('cache'))(
    titleOf(
      'interceptors.cache: a cacheable response is requested once',
      has('cache'),
      'this undici has no such interceptor',
    ),
    async () => {
      for (const pod of pods.all) await pod.behave({ headers: { 'cache-control': 'max-age=600' } });
      const composed = subject.compose(undici.interceptors.cache());
      const before = await pods.total('requests');
      const answers = [];
      for (let request = 0; request < 5; request++) {
        const { body, headers } = await get(composed, '/kept');
        answers.push(await body.json());
        expect(headers['x-pod']).toMatch(/^pod-/);
      }
      expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
      expect((await pods.total('requests')) - before).toBe(1);
      const posted = await composed.request({ origin, path: '/kept', method: 'POST', body: 'x' });
      expect(await posted.body.json()).toMatchObject({ method: 'POST', length: 1 });
    },
  );

  it.runIf(has('decompress'))(
    titleOf('interceptors.decompress: decompresses bodies', has('decompress'), 'this undici has no such interceptor'),
    async () => {
      const composed = subject.compose(undici.interceptors.decompress());
      expect(await (await get(composed, '/gzip')).body.text()).toBe('unpacked');
    },
  );

  it.runIf(has('deduplicate'))(
    titleOf(
      'interceptors.deduplicate: equal requests at the same time are sent once',
      has('deduplicate'),
      'this undici has no such interceptor',
    ),
    async () => {
      const before = await pods.total('requests');
      for (const pod of pods.all) await pod.behave({ delayMs: 50 });
      const composed = subject.compose(undici.interceptors.deduplicate());
      const answers = await Promise.all([1, 2, 3].map(async () => (await get(composed, '/same')).body.json()));
      for (const pod of pods.all) await pod.behave({ delayMs: 0 });
      expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
      expect((await pods.total('requests')) - before).toBe(1);
    },
  );

  it('all of them at once, with fetch on top', async () => {
    const { cache, redirect, retry, decompress } = undici.interceptors;
    const all = [retry({ maxRetries: 1 }), redirect({ maxRedirections: 2 })];
    // In undici 8.10 these two fail together, also over its own Agent.
    const unpacks = has('decompress') && !version.startsWith('8.10.');
    if (unpacks) all.push(decompress());
    if (has('cache')) all.push(cache());
    const composed = subject.compose(all);
    const response = await undici.fetch(`${origin}/gzip`, { dispatcher: composed });
    expect(await response.text()).toBe('unpacked');
    const { socket } = await composed.upgrade({ origin, path: '/', protocol: 'echo' } as { path: string });
    socket.write('across');
    expect(String((await once(socket, 'data'))[0])).toBe('across');
    socket.destroy();
  });
});

describe('appInterceptor', () => {
  it('over one Agent or several: requests to Services go to the pods, all others by the Agent', async () => {
    await using both = appInterceptor({ services, options: () => ({ resolver: resolver() }) });
    const agents = [new undici.Agent(), new undici.Agent()];
    for (const agent of agents) {
      const composed = agent.compose(both);
      const inside = await composed.request({ origin, path: '/', method: 'GET' });
      expect(await inside.body.json()).toMatchObject({ host: 'orders.shop:8080' });
      const away = await composed.request({ origin: `http://127.0.0.1:${outside.port}`, path: '/', method: 'GET' });
      expect(await away.body.json()).toMatchObject({ pod: 'outside' });
    }
    expect([...both.balancers.keys()]).toEqual([origin]);
    await both.close();
    for (const agent of agents) await agent.close();
  });

  it('composed first it lies under the others: a request goes where they say', async () => {
    await using inner = appInterceptor({ services, options: () => ({ resolver: resolver() }) });
    const agent = new undici.Agent();
    const renamed = agent.compose(inner, (dispatch) => (options, handler) => dispatch({ ...options, origin }, handler));
    const { body } = await renamed.request({ origin: 'http://old-name.example', path: '/', method: 'GET' });
    expect(await body.json()).toMatchObject({ pod: expect.stringMatching(/^pod-/), host: 'orders.shop:8080' });
    await agent.close();
  });
});

describe('createDispatcher, called without an origin', () => {
  const more = (orders: undici.Dispatcher, path: string) => orders.request({ path, method: 'GET' });

  it.skipIf(!has('cache')).each(['one after the other', 'composed in two steps', 'under a RetryAgent'])(
    'interceptors.cache: a cacheable response is requested once (%s)',
    async (how) => {
      for (const pod of pods.all) await pod.behave({ headers: { 'cache-control': 'max-age=600' } });
      const orders = createDispatcher(origin, { resolver: resolver() });
      const cache = undici.interceptors.cache();
      const composed =
        how === 'composed in two steps'
          ? orders.compose([cache]).compose(undici.interceptors.dump())
          : how === 'under a RetryAgent'
            ? new undici.RetryAgent(orders.compose(cache))
            : orders.compose(cache, undici.interceptors.dump());
      const before = await pods.total('requests');
      for (let request = 0; request < 3; request++) {
        const { body } = await more(composed, '/kept');
        await body.dump();
      }
      expect((await pods.total('requests')) - before).toBe(1);
      // One for another host is kept apart, and asked for there.
      await outside.behave({ headers: { 'cache-control': 'max-age=600' } });
      const there = { origin: `http://127.0.0.1:${outside.port}`, path: '/kept', method: 'GET' } as const;
      const { headers } = await composed.request(there);
      expect(headers['x-pod']).toBe('outside');
      await orders.close();
    },
  );

  it("an invalid request fails with undici's error", async () => {
    const orders = createDispatcher(origin, { resolver: resolver() });
    const composed = orders.compose((dispatch) => (options, handler) => dispatch(options, handler));
    for (const nothing of [null, undefined, 'a text']) {
      await expect(composed.request(nothing as never)).rejects.toMatchObject({ code: 'UND_ERR_INVALID_ARG' });
    }
    expect(() => orders.compose('none' as never)).toThrow(TypeError);
    await orders.close();
  });
});
