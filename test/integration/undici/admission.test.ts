import { setMaxListeners } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { staticEndpoints, without } from 'evenkeel';
import { createDispatcher, type DispatcherOptions, type ServiceDispatcher } from 'evenkeel/undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import { Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { PROOF } from './support/proof.js';

const origin = 'http://orders.shop:8080';
const CALLERS = PROOF ? 5_000 : 2_000;
const CONNECTIONS = 10;

let pods: Pods;
let orders: ServiceDispatcher;

beforeEach(async () => {
  pods = await Pods.start(3);
});
afterEach(async () => {
  await orders.destroy();
  await pods[Symbol.asyncDispose]();
});

const open = async (options: DispatcherOptions = {}): Promise<void> => {
  orders = createDispatcher(origin, {
    resolver: staticEndpoints(pods.endpoints),
    stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
    connections: CONNECTIONS,
    ...options,
  });
  await connected(orders.balancer, 3);
};
const hangAll = async (): Promise<void> => {
  await Promise.all(pods.all.map((pod) => pod.behave({ hang: true })));
};
const inFlight = (): number => orders.balancer.snapshot().endpoints.reduce((sum, { inFlight: n }) => sum + n, 0);

/** All callers ask at once; how often each error came. */
async function ask(callers: number): Promise<Record<string, number>> {
  const ends: Record<string, number> = {};
  const one = async (): Promise<void> => {
    const end = await orders.request({ path: '/', method: 'GET' }).then(
      () => 'answered',
      (error: { code?: string }) => String(error.code),
    );
    ends[end] = (ends[end] ?? 0) + 1;
  };
  await Promise.all(Array.from({ length: callers }, one));
  return ends;
}

describe('when every pod hangs', () => {
  it(`each of ${CALLERS} callers gets an error with a code at its deadline, and nothing of them remains`, async () => {
    let limitMs = 500;
    await open({ deadlineMs: () => limitMs, maxWaiting: CALLERS, waitTimeoutMs: 60_000 });
    await hangAll();
    expect(await ask(CALLERS)).toEqual({ EVENKEEL_DEADLINE: CALLERS });
    await until('nothing runs', () => inFlight() === 0);
    const before = await rest();
    for (let round = 0; round < 3; round++) {
      // Sockets that were being opened for those who gave up may take longer than their deadline.
      await until('nothing runs', () => inFlight() === 0);
      const asked = ask(CALLERS);
      // At most 30 are on their way, all others wait.
      const { waiting } = orders.balancer.snapshot();
      expect(waiting).toBeGreaterThanOrEqual(CALLERS - 3 * CONNECTIONS);
      expect(waiting + inFlight()).toBe(CALLERS);
      expect(await asked).toEqual({ EVENKEEL_DEADLINE: CALLERS });
      expect(orders.balancer.snapshot().waiting).toBe(0);
    }
    await until('nothing runs', () => inFlight() === 0);
    const after = await rest();
    expect(after.timers).toBeLessThanOrEqual(before.timers);
    // Three times as many calls; one kept is a kilobyte or more, so a third of them would be seen.
    expect(after.heap - before.heap).toBeLessThan(2_000_000);
    // And it works on.
    limitMs = 30_000;
    await Promise.all(pods.all.map((pod) => pod.behave({ hang: false })));
    expect(await ask(30)).toEqual({ answered: 30 });
  });

  it('callers beyond maxWaiting are turned away at once', async () => {
    await open({ deadlineMs: 1_000, maxWaiting: 1_000, waitTimeoutMs: 60_000 });
    await hangAll();
    const asked = ask(CALLERS);
    const running = inFlight();
    expect(running).toBeLessThanOrEqual(3 * CONNECTIONS);
    expect(orders.balancer.snapshot().waiting).toBe(1_000);
    expect(await asked).toEqual({
      EVENKEEL_QUEUE_FULL: CALLERS - 1_000 - running,
      EVENKEEL_DEADLINE: 1_000 + running,
    });
  });

  it('a call that waited for an endpoint for waitTimeoutMs fails with that reason, with a deadline or without', async () => {
    await open({ deadlineMs: 60_000, waitTimeoutMs: 200 });
    await hangAll();
    const controller = new AbortController();
    setMaxListeners(0, controller.signal);
    const running = Array.from({ length: 3 * CONNECTIONS }, () =>
      orders.request({ path: '/', method: 'GET', signal: controller.signal }).catch(() => {}),
    );
    expect(await ask(100)).toEqual({ EVENKEEL_NOT_READY: 100 });
    controller.abort();
    await Promise.all(running);
  });
});

describe('a request that waits', () => {
  it('goes to whichever pod has room first, and leaves the queue when it is aborted', async () => {
    await open({ connections: 1, waitTimeoutMs: 60_000 });
    await hangAll();
    const holders = new Map<number, AbortController>();
    for (let holder = 0; holder < 3; holder++) {
      const controller = new AbortController();
      void orders.request({ path: '/', method: 'GET', signal: controller.signal }).catch(() => {});
      await until('it is asked', async () => (await pods.total('requests')) === holder + 1);
      const asked = (await pods.stats()).findIndex(({ requests }, index) => requests > 0 && !holders.has(index));
      holders.set(asked, controller);
    }
    const given = new AbortController();
    const first = orders
      .request({ path: '/', method: 'GET', signal: given.signal })
      .catch((error: Error) => error.name);
    const second = orders.request({ path: '/', method: 'GET' });
    expect(orders.balancer.snapshot().waiting).toBe(2);
    given.abort();
    expect(orders.balancer.snapshot().waiting).toBe(1);
    expect(await first).toBe('AbortError');
    await pods.at(2).behave({ hang: false });
    holders.get(2)?.abort();
    const { headers, body } = await second;
    expect(headers['x-pod']).toBe('pod-2');
    await body.dump();
    for (const controller of holders.values()) controller.abort();
  });
});

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** What is left once everything is idle. */
async function rest(): Promise<{ heap: number; timers: number }> {
  for (let turn = 0; turn < 5; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
    collect();
  }
  const timers = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  return { heap: process.memoryUsage().heapUsed, timers };
}
