import { status } from '@grpc/grpc-js';
import { fits, type ObserverEvents, type PickerFactory, roundRobin, staticEndpoints, without } from 'evenkeel';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../support/until.js';
import { connected, ordersClient, say } from './support/client.js';
import { writesAreNotRepeated } from './support/peer.js';
import { type Pod, Pods } from './support/pods.js';
import { Traffic } from './support/traffic.js';

/** A call that a GOAWAY hits while its request is being written, which Node.js tells from 26 on and grpc-js repeats from 1.14.7 on. */
const NOT_REPEATED = writesAreNotRepeated ? /^14: Write error: .*NGHTTP2_REFUSED_STREAM$/ : undefined;

let pods: Pods;
const open: { close(): void }[] = [];

beforeEach(() => {
  pods = new Pods();
});
afterEach(async () => {
  for (const client of open.splice(0)) client.close();
  await pods.stop();
});

const retryPolicy = {
  maxAttempts: 4,
  initialBackoff: '0.01s',
  maxBackoff: '0.05s',
  backoffMultiplier: 2,
  retryableStatusCodes: ['UNAVAILABLE'],
};
const methods = (policy: object) =>
  JSON.stringify({ methodConfig: [{ name: [{ service: 'test.v1.Echo' }], ...policy }] });

async function orders(count: number, serviceConfig?: string, more: Parameters<typeof ordersClient>[0] = {}) {
  const started = await pods.start(count);
  const made = ordersClient({
    resolver: staticEndpoints(pods.endpoints),
    picker: roundRobin(),
    ...(serviceConfig !== undefined && { 'grpc.service_config': serviceConfig }),
    ...more,
  });
  open.push(made.client);
  await connected(made.balancer, count);
  return { ...made, started: started as [Pod, Pod, Pod] };
}

/** Takes the first pod each time, unless the call has been there. */
const stubborn: PickerFactory = (set) => ({
  pick: (request) => set.targets.find((target) => fits(target, request)) ?? set.targets[0],
});

describe('retryPolicy of the service config', () => {
  it('repeats a call on another pod than the one on which it failed', async () => {
    const attempts: ObserverEvents['attemptEnded'][] = [];
    const { client, started, balancer } = await orders(3, methods({ retryPolicy }), {
      picker: stubborn,
      // Without stages nothing is ejected, so only the call itself knows which pod it has been to.
      stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
      retry: { budget: { ratio: 1, minPerSecond: 100 } },
      observer: { attemptEnded: (event) => attempts.push(event) },
    });
    // The first calls after a start go to two pods that are drawn, whatever the picker.
    for (let call = 0; call < 4; call++) await say(client);
    const before = (await started[0].stats()).calls;
    attempts.length = 0;
    await started[0].set({ fail: status.UNAVAILABLE });
    for (let call = 0; call < 30; call++) expect((await say(client)).pod).not.toBe('pod-0');
    const failed = attempts.filter(({ outcome }) => outcome.kind === 'failure');
    expect((await started[0].stats()).calls - before).toBe(failed.length);
    expect(failed.length).toBe(30);
    expect(balancer.snapshot().counts).toMatchObject({ calls: 34, retries: { status: 30 } });
    expect(attempts.filter(({ outcome, attempt }) => outcome.kind === 'success' && attempt === 2).length).toBe(30);
    for (const { attempt, retrying, outcome, endpoint } of failed) {
      expect({ attempt, retrying, outcome, port: endpoint.port }).toEqual({
        attempt: 1,
        retrying: true,
        outcome: { kind: 'failure', cause: 'status' },
        port: started[0].port,
      });
    }
  });

  it('gives up after its maximum of attempts, each on another pod as far as there are others', async () => {
    const { client, started, balancer } = await orders(
      3,
      methods({ retryPolicy: { ...retryPolicy, maxAttempts: 3 } }),
      {
        stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
      },
    );
    for (const pod of started) await pod.set({ fail: status.UNAVAILABLE });
    await expect(say(client)).rejects.toMatchObject({ code: status.UNAVAILABLE });
    expect((await pods.stats()).map(({ calls }) => calls)).toEqual([1, 1, 1]);
    expect(balancer.snapshot().endpoints.map(({ failed, inFlight }) => [failed, inFlight])).toEqual([
      [1, 0],
      [1, 0],
      [1, 0],
    ]);
  });

  it('honors the pushback of the server', async () => {
    const { client, started } = await orders(2, methods({ retryPolicy }), {
      stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
    });
    for (const pod of started.slice(0, 2)) await pod.set({ fail: status.UNAVAILABLE, pushbackMs: -1 });
    await expect(say(client)).rejects.toMatchObject({ code: status.UNAVAILABLE });
    expect((await pods.stats()).reduce((sum, { calls }) => sum + calls, 0)).toBe(1);
  });

  it('keeps timeouts and retry throttling of the service config', async () => {
    const config = JSON.stringify({
      methodConfig: [{ name: [{ service: 'test.v1.Echo', method: 'Say' }], timeout: '0.05s' }],
      retryThrottling: { maxTokens: 10, tokenRatio: 0.1 },
    });
    const { client } = await orders(2, config);
    await expect(say(client, { text: 'hang' })).rejects.toMatchObject({ code: status.DEADLINE_EXCEEDED });
  });

  it('takes retries from the budget of the balancer; without one, the call ends with the error of its attempt', async () => {
    const { client, started, balancer } = await orders(
      2,
      methods({ retryPolicy: { ...retryPolicy, retryableStatusCodes: ['UNAVAILABLE', 'ABORTED'] } }),
      {
        stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
        retry: { budget: { ratio: 0, minPerSecond: 0 } },
      },
    );
    for (const pod of started.slice(0, 2)) await pod.set({ fail: status.UNAVAILABLE });
    await expect(say(client)).rejects.toMatchObject({
      code: status.UNAVAILABLE,
      details: expect.stringContaining('was told to fail'),
    });
    // A code that grpc-js does not take from a picker.
    for (const pod of started.slice(0, 2)) await pod.set({ fail: status.ABORTED });
    await expect(say(client)).rejects.toMatchObject({ code: status.ABORTED });
    expect((await pods.stats()).reduce((sum, { calls }) => sum + calls, 0)).toBe(2);
    const { calls, overBudget, retries } = balancer.snapshot().counts;
    expect([calls, overBudget, retries.status]).toEqual([2, 2, 0]);
    await until('nothing runs', () => balancer.snapshot().endpoints.every(({ inFlight }) => inFlight === 0));
  });

  it('refuses retry settings that grpc-js refuses', () => {
    expect(() => ordersClient({ retry: { statuses: [503] } } as never)).toThrow(/"retry.statuses"/);
  });

  it('lets no call fail whose answer had not begun when its pod was killed', async () => {
    const { client, started } = await orders(3, methods({ retryPolicy }));
    const traffic = new Traffic(client, 20);
    await until('traffic flows', () => traffic.calls > 500);
    started[1].kill();
    await started[1].exited;
    const then = traffic.calls;
    await until('traffic went on', () => traffic.calls > then + 500);
    const { failures, unanswered } = await traffic.stop();
    expect(unanswered).toEqual([]);
    // gRPC makes no call again whose headers have come; there are no more of these than callers.
    expect(failures.length).toBeLessThanOrEqual(20);
  });
});

describe('hedgingPolicy of the service config', () => {
  it('sends its second attempt to another pod, and the first answer wins', async () => {
    const hedgingPolicy = { maxAttempts: 2, hedgingDelay: '0.02s', nonFatalStatusCodes: ['UNAVAILABLE'] };
    const { client, started, balancer } = await orders(2, methods({ hedgingPolicy }), {
      stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
    });
    await started[0].set({ hang: true });
    for (let call = 0; call < 6; call++) expect((await say(client)).pod).toBe('pod-1');
    await until('every attempt has ended', () => balancer.snapshot().endpoints.every(({ inFlight }) => inFlight === 0));
    const [hung, well] = await pods.stats();
    expect(hung?.calls).toBeGreaterThan(0);
    expect(well?.calls).toBe(6);
    await until('the losers were cancelled on the pod', async () => (await started[0].stats()).running === 0);
  });
});

describe('hedges that the budget does not cover', () => {
  it('wait until it does, and no call fails', async () => {
    const hedgingPolicy = { maxAttempts: 3, hedgingDelay: '0.01s', nonFatalStatusCodes: ['UNAVAILABLE'] };
    const { client, started, balancer } = await orders(2, methods({ hedgingPolicy }), {
      stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
      retry: { budget: { ratio: 0, minPerSecond: 0 } },
    });
    for (const pod of started.slice(0, 2)) await pod.set({ delayMs: 60 });
    expect((await say(client)).pod).toMatch(/^pod-/);
    expect((await pods.stats()).reduce((sum, { calls }) => sum + calls, 0)).toBe(1);
    for (const pod of started.slice(0, 2)) await pod.set({ delayMs: 60, fail: status.UNAVAILABLE });
    await expect(say(client)).rejects.toMatchObject({ code: status.UNAVAILABLE });
    expect(balancer.snapshot().counts.hedges).toBe(0);
    await until('nothing runs', () => balancer.snapshot().endpoints.every(({ inFlight }) => inFlight === 0));
  });
});

describe('without a service config', () => {
  it('no call fails that was on its way when a pod sent GOAWAY without notice', async () => {
    const { client, started, balancer } = await orders(3);
    const traffic = new Traffic(client, 50);
    await until('traffic flows', () => traffic.calls > 500);
    for (const pod of started.slice(0, 2)) {
      pod.terminate();
      await pod.exited;
      const then = traffic.calls;
      await until('traffic went on', () => traffic.calls > then + 500);
    }
    const { failures } = await traffic.stop();
    expect(failures.filter((failure) => !NOT_REPEATED?.test(failure))).toEqual([]);
    expect(balancer.snapshot().endpoints.map(({ failed }) => failed)).toEqual([0, 0, 0]);
  });

  it('does not repeat a call that a pod has answered', async () => {
    const { client, started } = await orders(2);
    await started[0].set({ fail: status.UNAVAILABLE });
    const results = await Promise.allSettled(Array.from({ length: 4 }, () => say(client)));
    expect(results.filter(({ status }) => status === 'rejected').length).toBe(2);
  });
});
