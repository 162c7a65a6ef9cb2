import { staticEndpoints } from 'evenkeel';
import { FakeResolver } from 'evenkeel/testing';
import { createAppAgent, createDispatcher, type DispatcherOptions, type ServiceDispatcher } from 'evenkeel/undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import { Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';

const origin = 'http://orders.shop:8080';

/** What `destroy` makes of requests in every stage, with undici's own dispatchers as the example. */
describe('destroy', () => {
  let pods: Pods;
  beforeAll(async () => {
    pods = await Pods.start(1);
  });
  afterAll(() => pods[Symbol.asyncDispose]());

  const open = async (options: DispatcherOptions = {}): Promise<ServiceDispatcher> => {
    const orders = createDispatcher(origin, { resolver: staticEndpoints(pods.endpoints), connections: 2, ...options });
    await connected(orders.balancer, 1);
    return orders;
  };
  const get = (from: Pick<ServiceDispatcher, 'request'>, path: string): Promise<unknown> => {
    const answer = from.request({ origin, path, method: 'GET' } as never).then(({ body }) => body.text());
    answer.catch(() => {});
    return answer;
  };
  /** Requests of which one has an answer that goes on, one has none, and one waits for its turn. */
  const inEveryStage = async (orders: ServiceDispatcher): Promise<Promise<unknown>[]> => {
    const before = await pods.total('requests');
    const all = [get(orders, '/hang-body'), get(orders, '/hang'), get(orders, '/')];
    await until('two are at the pod', async () => (await pods.total('requests')) === before + 2);
    await until('one waits', () => orders.balancer.snapshot().waiting === 1);
    return all;
  };
  const outcomes = async (all: readonly Promise<unknown>[]): Promise<unknown[]> =>
    (await Promise.allSettled(all)).map((end) => (end.status === 'rejected' ? end.reason : 'answered'));
  const codes = async (all: readonly Promise<unknown>[]): Promise<unknown[]> =>
    (await outcomes(all)).map((error) => (error as { code?: string }).code);

  it.each([
    ['', {}],
    [', and may have several answers', { retry: { statuses: [503] } }],
  ])('fails all running and waiting requests with its error%s', async (_what, options) => {
    const orders = await open(options);
    const all = await inEveryStage(orders);
    const reason = new Error('the process ends');
    await orders.destroy(reason);
    for (const error of await outcomes(all)) expect(error).toBe(reason);
  });

  it('without an error fails waiting requests as closed, and running ones as cut', async () => {
    for (const end of [
      (orders: ServiceDispatcher) => orders.destroy(),
      (orders: ServiceDispatcher) => orders.destroy(null),
    ]) {
      const orders = await open();
      const all = await inEveryStage(orders);
      await end(orders);
      expect(await codes(all)).toEqual(['UND_ERR_DESTROYED', 'UND_ERR_DESTROYED', 'EVENKEEL_CLOSED']);
    }
  });

  it('with an error fails them with it also while a close waits for them', async () => {
    const orders = await open();
    const all = await inEveryStage(orders);
    const reason = new Error('the process ends');
    const closed = orders.close();
    await orders.destroy(reason);
    await closed;
    for (const error of await outcomes(all)) expect(error).toBe(reason);
  });

  it('fails requests that wait for the first pod with its error, also with a callback; later requests fail because it is closed', async () => {
    const orders = createDispatcher(origin, { resolver: new FakeResolver() });
    const waiting = get(orders, '/');
    const reason = new Error('the process ends');
    await new Promise<void>((resolve) => orders.destroy(reason, resolve));
    expect(await outcomes([waiting])).toEqual([reason]);
    expect(await codes([get(orders, '/')])).toEqual(['EVENKEEL_CLOSED']);
    await orders.destroy(new Error('again'));
  });

  it("leaves the caller's own reason to a request that was aborted", async () => {
    const orders = createDispatcher(origin, { resolver: new FakeResolver() });
    const gaveUp = new AbortController();
    const waiting = orders.request({ path: '/', method: 'GET', signal: gaveUp.signal });
    waiting.catch(() => {});
    gaveUp.abort(new Error('enough'));
    await orders.destroy(new Error('the process ends'));
    await expect(waiting).rejects.toThrow('enough');
  });

  it('of a service agent fails the requests of its Services with its error', async () => {
    const resolver = new FakeResolver();
    let asked = 0;
    const agent = createAppAgent({
      services: ['orders.shop'],
      options: () => {
        asked++;
        return { resolver };
      },
    });
    const waiting = get(agent as never, '/');
    await until('its Service is known', () => asked === 1);
    const reason = new Error('the process ends');
    await agent.destroy(reason);
    expect(await outcomes([waiting])).toEqual([reason]);
  });
});
