import { createDispatcher, type DispatcherOptions, type ServiceDispatcher } from 'evenkeel/undici';
import { Pool } from 'undici';
import { afterEach, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import { Pods } from '../../support/pods/pods.js';
import { PROOF } from './support/proof.js';

let pods: Pods;
let orders: ServiceDispatcher;
afterEach(async () => {
  await orders.destroy();
  await pods[Symbol.asyncDispose]();
});

async function start(count: number, options: DispatcherOptions = {}): Promise<void> {
  pods = await Pods.start(count);
  const resolver = `static:${pods.endpoints.map(({ address, port }) => `${address}:${port}`).join(',')}`;
  orders = createDispatcher('http://orders.shop:8080', { resolver, ...options });
  await connected(orders.balancer, count);
}

type Send = (method: 'GET' | 'POST') => Promise<void>;

const ours: Send = async (method) => {
  const { body } = await orders.request({ origin: 'http://orders.shop:8080', path: '/', method });
  await body.dump();
};

/** Sends `count` requests, each to the end of its answer, by so many callers; returns how many failed. */
async function lost(send: Send, method: 'GET' | 'POST', count: number, callers: number): Promise<number> {
  let failed = 0;
  let sent = 0;
  const caller = async (): Promise<void> => {
    while (sent++ < count) await send(method).catch(() => failed++);
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return failed;
}

describe('pods that hang up after each response without saying so', () => {
  const PODS = 10;
  const [POSTS, GETS] = PROOF ? [300, 500] : [100, 150];
  /**
   * A hang-up can come late, when the machine is busy: Pools of undici's lose a request or two in a thousand then. To send
   * on connections that have not rested loses the first one of each pod, ten.
   */
  const CHANCE = 4;

  const overBarePools = (): { send: Send; close: () => Promise<unknown> } => {
    const bare = pods.endpoints.map(({ address, port }) => new Pool(`http://${address}:${port}`));
    let turn = 0;
    const send: Send = async (method) => {
      const { body } = await (bare[turn++ % PODS] as Pool).request({ path: '/', method });
      await body.dump();
    };
    return { send, close: () => Promise.all(bare.map((pool) => pool.close())) };
  };

  it.each([1, 20])('lose no more POSTs than with bare Pools, with %i callers', async (callers) => {
    await start(PODS);
    for (const pod of pods.all) await pod.behave({ hangUp: true });
    const { send: inTurn, close } = overBarePools();
    const theirs = await lost(inTurn, 'POST', POSTS, callers);
    expect(await lost(ours, 'POST', POSTS, callers)).toBeLessThanOrEqual(theirs + CHANCE);
    await close();
  });

  it.each([1, 20])('lose no GET, with %i callers', async (callers) => {
    // On a busy machine hang-ups come late, and lose attempts; the budget pays for all that follow, and the last one of a GET cannot be lost.
    await start(PODS, { retry: { budget: { minPerSecond: 100_000 } } });
    for (const pod of pods.all) await pod.behave({ hangUp: true });
    expect(await lost(ours, 'GET', GETS, callers)).toBe(0);
  });
});

describe('pods that lose every request on a connection that was used before', () => {
  // Every request costs as many retries as it may have.
  const retry = { budget: { minPerSecond: 100_000 } };

  it.each<[string, DispatcherOptions]>([
    ['', {}],
    [', of one connection each', { connections: 1 }],
    [', where two attempts are all', { retry: { ...retry, maxAttempts: 2 } }],
    [', with hedging', { hedge: { afterMs: 60_000 } }],
  ])('cost no GET: its last attempt uses a new connection%s', async (_what, options) => {
    await start(3, { retry, ...options });
    for (const pod of pods.all) await pod.behave({ resetReused: true });
    expect(await lost(ours, 'GET', 60, 1)).toBe(0);
    expect(await lost(ours, 'GET', 200, 10)).toBe(0);
  });
});

describe('requests one after the other to one pod', () => {
  const count = async (method: 'GET' | 'POST', options?: DispatcherOptions): Promise<number> => {
    await start(1, options);
    expect(await lost(ours, method, 20, 1)).toBe(0);
    return pods.total('connections');
  };

  it('use one connection if they are repeated when lost', async () => {
    expect(await count('GET')).toBe(1);
  });

  // Two take turns, as in undici's Pool: each has rested when it is used again.
  it.each<[string, 'GET' | 'POST', DispatcherOptions]>([
    ['are POSTs', 'POST', {}],
    ['have one attempt', 'GET', { retry: { maxAttempts: 1 } }],
    ['are repeated as `retry.when` says', 'GET', { retry: { when: ({ usual }) => usual } }],
    ['have nothing that pays for repeating them', 'GET', { retry: { budget: { ratio: 0, minPerSecond: 0 } } }],
    ['are of a method that is not repeated', 'GET', { retry: { methods: ['PUT'] } }],
  ])('let connections rest if they %s', async (_why, method, options) => {
    expect(await count(method, options)).toBe(2);
  });

  it('use one connection for POSTs that may be repeated', async () => {
    expect(await count('POST', { retry: { methods: ['POST'] } })).toBe(1);
  });
});
