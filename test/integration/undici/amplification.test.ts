import { staticEndpoints } from 'evenkeel';
import { createFetch, type DispatcherOptions, type ServiceFetch } from 'evenkeel/undici';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import { Pods } from '../../support/pods/pods.js';
import { PROOF } from './support/proof.js';

const origin = 'http://orders.shop:8080';
const CALLS = PROOF ? 1_000 : 150;
const WORKERS = 50;

let pods: Pods;
let orders: ServiceFetch;

beforeAll(async () => {
  pods = await Pods.start(3);
});
afterAll(() => pods[Symbol.asyncDispose]());
afterEach(() => orders.dispatcher.destroy());

/** Sends `CALLS` requests; the requests the pods got, and for how many seconds. */
async function run(options: DispatcherOptions, init: RequestInit = {}): Promise<{ arrived: number; seconds: number }> {
  // The budget fills from here on.
  const beganMs = performance.now();
  orders = createFetch(origin, { resolver: staticEndpoints(pods.endpoints), ...options });
  await connected(orders.balancer, 3);
  const before = await pods.total('requests');
  let left = CALLS;
  const work = async (): Promise<void> => {
    while (left-- > 0) {
      const response = await orders('/', init);
      expect(response.status).toBe(503);
      await response.arrayBuffer();
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, work));
  const seconds = (performance.now() - beganMs) / 1_000;
  return { arrived: (await pods.total('requests')) - before, seconds };
}

// What the budget can have paid for: a fifth of the calls, ten a second, and the ten it begins with.
const bound = (seconds: number): number => 1.2 * CALLS + 10 * (seconds + 1);

describe('when every pod answers 503, the pods get at most 1.2 times the calls and 10 a second', () => {
  it.each([
    ['by status', { retry: { statuses: [503] } }, {}],
    ['by status, with as many attempts as one likes', { retry: { statuses: [503], maxAttempts: 100 } }, {}],
    ['by a rule of one’s own', { retry: { when: () => true } }, {}],
    ['and asks to be left alone', { retry: { statuses: [503] } }, { 'retry-after': '1' }],
    ['by status and with hedges', { retry: { statuses: [503] }, hedge: { afterMs: 1 } }, {}],
  ] as [string, DispatcherOptions, Record<string, string>][])('%s', async (_name, options, headers) => {
    for (const pod of pods.all) await pod.behave({ status: 503, headers });
    const { arrived, seconds } = await run(options);
    expect(arrived).toBeLessThanOrEqual(bound(seconds));
    // A pod that asks to be left alone gets no retry at all; otherwise the budget is used.
    if (headers['retry-after'] === undefined) expect(arrived).toBeGreaterThan(1.1 * CALLS);
  });

  it('and no more than the calls if they are POSTs', async () => {
    for (const pod of pods.all) await pod.behave({ status: 503 });
    expect((await run({ retry: { statuses: [503] } }, { method: 'POST', body: 'x' })).arrived).toBe(CALLS);
  });
});
