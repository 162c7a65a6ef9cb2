import { status } from '@grpc/grpc-js';
import { inFlight, staticEndpoints } from 'evenkeel';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connected, type Orders, ordersClient, say } from './support/client.js';
import { type Pod, type PodBehaviour, Pods } from './support/pods.js';

const DEADLINE_MS = 1_000;
/** `npm run proof -- grpc`: ten pods, a minute, and the number that is promised for it. */
const PROOF = process.env.EVENKEEL_PROOF === '1';
const PODS = PROOF ? 10 : 4;
const CALLS_BEFORE = 200;
const LENGTH_MS = PROOF ? 62_000 : 4_000;

let pods: Pods;
let faulty: Pod;
let orders: Orders;
/** When an endpoint was ejected, and its port. */
let ejections: { readonly atMs: number; readonly port: number }[];
/** Calls that failed on other pods: on a busy machine some miss their deadline. */
let failedOnOthers: number;

beforeEach(async () => {
  pods = new Pods();
  faulty = (await pods.start(PODS))[2] as Pod;
  ejections = [];
  failedOnOthers = 0;
  orders = ordersClient({
    resolver: staticEndpoints(pods.endpoints),
    // The default load leaves such a pod alone before it has failed often enough to be ejected.
    load: inFlight(),
    observer: {
      ejected: ({ endpoint }) => ejections.push({ atMs: performance.now(), port: endpoint.port }),
      attemptEnded: ({ endpoint, outcome }) => {
        const ended = outcome.kind === 'failure' || outcome.kind === 'cancelled';
        if (ended && endpoint.port !== faulty.port) failedOnOthers++;
      },
    },
  });
  await connected(orders.balancer, PODS);
});
afterEach(async () => {
  orders.client.close();
  await pods.stop();
});

interface Call {
  readonly startedMs: number;
  readonly code: number;
}

interface Run {
  /** When the fault began. */
  readonly faultMs: number;
  readonly calls: readonly Call[];
}

/** Calls at a steady rate, whether earlier ones have ended or not, until `LENGTH_MS` after the fault began. */
async function openLoop(fault: PodBehaviour): Promise<Run> {
  const calls: Promise<Call>[] = [];
  let faultMs = Number.POSITIVE_INFINITY;
  const call = async (): Promise<Call> => {
    const startedMs = performance.now();
    try {
      await say(orders.client, { deadline: Date.now() + DEADLINE_MS });
      return { startedMs, code: status.OK };
    } catch (error) {
      return { startedMs, code: (error as { code: number }).code };
    }
  };
  await new Promise<void>((resolve) => {
    const timer = setInterval(() => {
      // At most 1,000 a second; a slow machine makes it fewer, not later.
      for (let burst = PROOF ? 2 : 1; burst > 0; burst--) calls.push(call());
      if (calls.length === CALLS_BEFORE) {
        void faulty.set(fault).then(() => {
          faultMs = performance.now();
        });
      }
      if (performance.now() < faultMs + LENGTH_MS) return;
      clearInterval(timer);
      resolve();
    }, 2);
  });
  return { faultMs, calls: await Promise.all(calls) };
}

describe('one pod goes wrong, without a retry policy', () => {
  const faults: readonly [string, PodBehaviour][] = [
    ['hangs', { hang: true }],
    ['fails at once with UNAVAILABLE', { fail: status.UNAVAILABLE }],
    ['is slow', { delayMs: 50 }],
  ];
  for (const [what, fault] of faults) {
    it(`it ${what}: once it is ejected, only single trial calls fail`, async () => {
      const { faultMs, calls } = await openLoop(fault);
      const failed = calls.filter(({ code }) => code !== status.OK);
      const ejected = new Set(ejections.map(({ port }) => port));
      expect(ejected.has(faulty.port)).toBe(failed.length > failedOnOthers);
      if (failedOnOthers === 0) expect(ejected.size).toBeLessThanOrEqual(1);
      const ejectedMs = ejections[0]?.atMs ?? faultMs;
      // Each trial is one call; a failed one ejects again.
      const trials = failed.filter(({ startedMs }) => startedMs > ejectedMs);
      expect(trials.length).toBeLessThanOrEqual(ejections.length + failedOnOthers);
      if (!PROOF) return;
      expect(failedOnOthers).toBe(0);
      const later = calls.filter(({ startedMs }) => startedMs > faultMs + 2 * DEADLINE_MS);
      const laterFailed = later.filter(({ code }) => code !== status.OK);
      console.log(
        `${what}: from 2 deadlines on ${laterFailed.length} of ${later.length} failed, ${failed.length} in all`,
      );
      expect(laterFailed.length / later.length).toBeLessThanOrEqual(0.001);
    });
  }
});
