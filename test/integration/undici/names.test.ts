import { staticEndpoints } from 'evenkeel';
import { createDispatcher, createFetch, type DispatcherOptions, type ServiceDispatcher } from 'evenkeel/undici';
import * as undici from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import { Pod, Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';

const origin = 'http://orders.shop:8080';
const authorization = 'Bearer only-for-orders';

let pods: Pods;
/** Some other server, which must get what is meant for it; the pods must not. */
let otherPod: Pod;
let otherOrigin: string;
let dispatcher: ServiceDispatcher;

const open = (options: DispatcherOptions = {}): ServiceDispatcher => {
  dispatcher = createDispatcher(origin, { resolver: staticEndpoints(pods.endpoints), ...options });
  return dispatcher;
};

beforeEach(async () => {
  pods = await Pods.start(2);
  otherPod = await Pod.start({ name: 'other' });
  otherOrigin = `http://127.0.0.1:${otherPod.port}`;
});
afterEach(async () => {
  await dispatcher.destroy();
  await Promise.all([pods[Symbol.asyncDispose](), otherPod[Symbol.asyncDispose]()]);
});

describe('a request for another origin', () => {
  it.each([
    ['by its URL', async () => undici.request(`${otherOrigin}/`, { dispatcher, headers: { authorization } })],
    [
      'by the origin option',
      async () =>
        dispatcher.request({ origin: new URL(otherOrigin), path: '/', method: 'GET', headers: { authorization } }),
    ],
  ])('%s goes there and to no pod', async (_how, send) => {
    open();
    const { body } = await send();
    expect(await body.json()).toMatchObject({ pod: 'other', host: `127.0.0.1:${otherPod.port}` });
    expect(await pods.total('requests')).toBe(0);
    expect((await otherPod.stats()).authorized).toBe(1);
    // The Agent that was made for it is closed with the dispatcher.
    await dispatcher.close();
    await until('nothing is open there', async () => (await otherPod.stats()).open === 0);
  });

  it.each([
    [
      'global fetch',
      () =>
        fetch(`${origin}/redirect?to=${otherOrigin}/there`, {
          dispatcher,
          headers: { authorization },
        } as unknown as RequestInit),
    ],
    [
      'undici.fetch',
      () => undici.fetch(`${origin}/redirect?to=${otherOrigin}/there`, { dispatcher, headers: { authorization } }),
    ],
  ])('that %s makes to follow a redirect leaves the pods, without the credentials', async (_client, send) => {
    open();
    const response = await send();
    expect(await response.json()).toMatchObject({ pod: 'other', url: '/there' });
    expect(await pods.total('requests')).toBe(1);
    expect((await otherPod.stats()).authorized).toBe(0);
  });

  it('that undici’s redirect interceptor makes leaves the pods, too', async () => {
    const composed = open().compose(undici.interceptors.redirect({ maxRedirections: 3 }));
    const { body } = await composed.request({
      origin,
      path: `/redirect?to=${otherOrigin}/there`,
      method: 'GET',
      headers: { authorization },
    });
    expect(await body.json()).toMatchObject({ pod: 'other' });
    expect((await otherPod.stats()).authorized).toBe(0);
    expect(await pods.total('requests')).toBe(1);
  });

  it('whose name only looks like that of the Service reaches no pod', async () => {
    const seen: (string | undefined)[] = [];
    const fallbackDispatcher = new (class extends undici.Agent {
      override dispatch(
        options: undici.Dispatcher.DispatchOptions,
        handler: undici.Dispatcher.DispatchHandler,
      ): boolean {
        seen.push(String(options.origin));
        return super.dispatch({ ...options, origin: otherOrigin }, handler);
      }
    })();
    open({ fallbackDispatcher });
    for (const name of ['orders.shop.example.com', 'orders.other', 'orders.shop.svc.example.com']) {
      const { body } = await undici.request(`http://${name}:8080/`, { dispatcher, headers: { authorization } });
      await body.dump();
    }
    const { body } = await undici.request('http://orders.shop:9999/', { dispatcher, headers: { authorization } });
    await body.dump();
    expect(seen).toHaveLength(4);
    expect(await pods.total('authorized')).toBe(0);
    // A dispatcher the caller gave is his to close.
    await dispatcher.close();
    expect(fallbackDispatcher.closed).toBe(false);
    await fallbackDispatcher.close();
  });
});

describe('a request for the Service', () => {
  it('reaches the pods under each of its names, with the Host header of the target', async () => {
    open();
    const names = ['orders.shop', 'orders.shop.svc', 'orders.shop.svc.cluster.local', 'orders.shop.svc.cluster.local.'];
    for (const name of names) {
      const { body } = await undici.request(`http://${name}:8080/x?y=1`, { dispatcher });
      expect(await body.json()).toMatchObject({ host: 'orders.shop:8080', url: '/x?y=1' });
    }
    expect(await pods.total('requests')).toBe(4);
  });

  it('may be an absolute URL in the path, or have no origin at all', async () => {
    open();
    const absolute = await dispatcher.request({ path: `${origin}/a?b=1`, method: 'GET' });
    expect(await absolute.body.json()).toMatchObject({ url: '/a?b=1' });
    const relative = await dispatcher.request({ path: '/c', method: 'GET' });
    expect(await relative.body.json()).toMatchObject({ url: '/c' });
    const odd = await dispatcher.request({ path: '//elsewhere.example.com/x', method: 'GET' });
    expect(await odd.body.json()).toMatchObject({ url: '//elsewhere.example.com/x', host: 'orders.shop:8080' });
  });

  it("keeps the caller's Host header", async () => {
    open();
    const { body } = await dispatcher.request({ path: '/', method: 'GET', headers: { host: 'tenant.example.com' } });
    expect(await body.json()).toMatchObject({ host: 'tenant.example.com' });
  });
});

describe('an absolute URL in the path', () => {
  it.each<[string, (path: string) => Promise<unknown>]>([
    ['origin', (path) => dispatcher.request({ origin, path, method: 'GET', headers: { authorization } })],
    [
      'origin, in another spelling',
      (path) =>
        dispatcher.request({ origin: 'http://orders.shop.svc:8080', path, method: 'GET', headers: { authorization } }),
    ],
    [
      'origin, for a plain Agent',
      (path) => dispatcher.request({ origin: 'http://127.0.0.1:9', path, method: 'GET', headers: { authorization } }),
    ],
    ['dispatcher', (path) => dispatcher.request({ path, method: 'GET', headers: { authorization } })],
  ])('that names another host than the %s is refused, and no credentials are sent', async (_what, send) => {
    open();
    for (const path of [`${otherOrigin}/`, otherOrigin.replace('http:', 'HTTP:'), 'https://orders.shop:8080/']) {
      await expect(send(path)).rejects.toMatchObject({ code: 'UND_ERR_INVALID_ARG' });
    }
    expect((await otherPod.stats()).requests).toBe(0);
    expect(await pods.total('requests')).toBe(0);
  });

  it('is used as a path where it names the same Service, in any spelling', async () => {
    open();
    for (const named of ['http://orders.shop:8080', 'http://orders.shop.svc.cluster.local:8080']) {
      const { body } = await dispatcher.request({ origin, path: `${named}/a?b=1`, method: 'GET' });
      expect(await body.json()).toMatchObject({ url: '/a?b=1' });
    }
  });

  it('is used as a path where it names the host outside that the request is for', async () => {
    open();
    const { body } = await dispatcher.request({ origin: otherOrigin, path: `${otherOrigin}/a`, method: 'GET' });
    expect(await body.json()).toMatchObject({ pod: 'other', url: '/a' });
  });
});

describe('a target that is an address', () => {
  it.each(['127.0.0.1', 'localhost'])('%s is one endpoint, without any lookup', async (host) => {
    dispatcher = createDispatcher(`http://${host}:${otherPod.port}`);
    const { body } = await dispatcher.request({ path: '/', method: 'GET' });
    expect(await body.json()).toMatchObject({ pod: 'other', host: `${host}:${otherPod.port}` });
    expect(dispatcher.balancer.snapshot().endpoints).toHaveLength(1);
  });
});

describe('a hash picker', () => {
  it('gets the key of each request', async () => {
    const keys: (string | undefined)[] = [];
    await using fetchOrders = createFetch(origin, {
      resolver: staticEndpoints(pods.endpoints),
      key: ({ path }) => path.split('/')[1],
      picker: (set) => ({
        pick: (request) => {
          keys.push(request.key);
          return set.targets[request.key === 'anna' ? 0 : 1];
        },
      }),
    });
    dispatcher = fetchOrders.dispatcher;
    await connected(fetchOrders.balancer, 2);
    const first = await (await fetchOrders('/anna/1')).json();
    expect(await (await fetchOrders('/anna/2')).json()).toMatchObject({ pod: (first as { pod: string }).pod });
    expect(await (await fetchOrders('/bert/1')).json()).not.toMatchObject({ pod: (first as { pod: string }).pod });
    expect(keys).toEqual(['anna', 'anna', 'bert']);
  });
});
