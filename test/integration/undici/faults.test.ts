import { type Endpoint, inFlight, peakEwma } from 'evenkeel';
import { createDispatcher, type DispatcherOptions, type ServiceDispatcher } from 'evenkeel/undici';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import type { Pod } from '../../support/pods/pods.js';
import { titleOf } from '../../support/title-of.js';
import { Cluster } from './support/cluster.js';
import { OtherNetwork } from './support/other-network.js';
import { machineMs, PROOF, quantile, report } from './support/proof.js';
import { type CallRecord, openLoop, Tally } from './support/traffic.js';

const DEADLINE_MS = 1_000;
const PODS = PROOF ? 10 : 5;
const PER_SECOND = PROOF ? 1_000 : 400;
const HEALTHY_MS = PROOF ? 10_000 : 500;
const WATCHED_MS = 2 * DEADLINE_MS + 60_000;
/** How long an answer takes; ten times as much is far above what a busy machine adds. */
const SERVICE_MS = 20;

let cluster: Cluster;
let orders: ServiceDispatcher;
let faulty: Pod;
/** Addresses of what was ejected, in order. */
let ejections: string[];
/** Addresses of what could not be connected to. */
let lost: Set<string>;

beforeEach(async () => {
  cluster = await Cluster.start(PODS - 1);
  ejections = [];
  lost = new Set();
});
afterEach(async () => {
  faulty.thaw();
  await orders.destroy();
  await cluster[Symbol.asyncDispose]();
});

interface Run {
  readonly faultMs: number;
  /** From before the fault. */
  readonly healthy: readonly CallRecord[];
  /** From then on. */
  readonly calls: readonly CallRecord[];
  /** Calls that were running on the faulty pod when the fault began, or were given to it within a deadline. */
  readonly exposed: number;
  /** All that were given to it after that. */
  readonly givenLater: number;
  /** All that were given to it after its first ejection. */
  readonly givenEjected: number;
  /** Calls that failed on other pods: on a busy machine some miss their deadline. */
  readonly failedOnOthers: number;
}

/** How long a test that is no proof goes on once the fault was seen: until after the first trial. */
const SEEN_MS = 1_500;

/**
 * A steady rate of requests with a deadline and no retries, in the middle of which `fault` happens to one pod. Outside of
 * a proof it is over when it has been `seen` for a while.
 */
async function run(
  fault: () => void | Promise<void>,
  seen: () => boolean,
  options: DispatcherOptions = {},
): Promise<Run> {
  let startedEjected: number | undefined;
  let failedOnOthers = 0;
  for (const pod of cluster.pods) await pod.behave({ delayMs: SERVICE_MS });
  orders = createDispatcher('http://orders.shop:8080', {
    resolver: cluster.resolver(),
    retry: { maxAttempts: 1 },
    observer: {
      ejected: ({ endpoint }) => {
        ejections.push(addressOf(endpoint));
        if (addressOf(endpoint) === addressOf(faulty)) startedEjected ??= onFaulty().started;
      },
      subchannelChanged: ({ endpoint, to }) => {
        if (to === 'backoff') lost.add(addressOf(endpoint));
      },
      attemptEnded: ({ endpoint, outcome }) => {
        if (outcome.kind !== 'success' && addressOf(endpoint) !== addressOf(faulty)) failedOnOthers++;
      },
    },
    ...options,
  });
  await connected(orders.balancer, PODS);
  const tally = new Tally(async (method, id) => {
    const signal = AbortSignal.timeout(DEADLINE_MS);
    const headers = { 'x-id': id };
    const { statusCode, body } = await orders.request({ path: '/', method: method as 'GET', headers, signal });
    await body.text();
    return statusCode;
  });
  const onFaulty = (): { readonly started: number; readonly inFlight: number } => {
    const { endpoints } = orders.balancer.snapshot();
    return endpoints.find(({ address }) => address === addressOf(faulty)) ?? { started: 0, inFlight: 0 };
  };
  // The first calls compile what they run through.
  await openLoop(tally, PER_SECOND, 300, { prefix: 'warm-up' });
  tally.calls.length = 0;
  await openLoop(tally, PER_SECOND, HEALTHY_MS, { prefix: 'healthy' });
  const healthy = tally.calls.splice(0);
  failedOnOthers = 0;
  let faultMs = Number.NaN;
  let seenMs = Number.NaN;
  let before = { started: 0, inFlight: 0 };
  let startedWithin: number | undefined;
  const begins = async (): Promise<void> => {
    before = onFaulty();
    await fault();
    faultMs = machineMs();
  };
  const began = begins();
  await openLoop(tally, PER_SECOND, WATCHED_MS + 200, {
    prefix: 'faulty',
    tick: () => {
      if (machineMs() >= faultMs + DEADLINE_MS) startedWithin ??= onFaulty().started;
      if (Number.isNaN(seenMs) && seen()) seenMs = machineMs();
    },
    enough: () => !PROOF && machineMs() > seenMs + SEEN_MS,
  });
  await began;
  const { started } = onFaulty();
  startedWithin ??= started;
  return {
    faultMs,
    healthy,
    calls: tally.calls,
    exposed: startedWithin - before.started + before.inFlight,
    givenLater: started - startedWithin,
    givenEjected: started - (startedEjected ?? started),
    failedOnOthers,
  };
}

const addressOf = (of: { readonly host: string; readonly port: number } | Endpoint): string =>
  `${'host' in of ? of.host : of.address}:${of.port}`;
const failed = (calls: readonly CallRecord[]): readonly CallRecord[] =>
  calls.filter(({ failure }) => failure !== undefined);
const p99 = (calls: readonly CallRecord[]): number =>
  quantile(
    calls.filter(({ failure }) => failure === undefined).map(({ startedMs, endedMs }) => endedMs - startedMs),
    0.99,
  );

/** Two deadlines after the fault and later. */
const settled = ({ calls, faultMs }: Run): readonly CallRecord[] =>
  calls.filter(({ startedMs }) => startedMs >= faultMs + 2 * DEADLINE_MS);

function print(what: string, run: Run): void {
  const later = settled(run);
  report(what, {
    'failed within two deadlines': `${failed(run.calls).length - failed(later).length} (${run.exposed} exposed)`,
    'failed later': `${failed(later).length} of ${later.length}`,
    'failed on other pods': run.failedOnOthers,
    'p99 healthy': `${p99(run.healthy).toFixed(1)} ms`,
    'p99 later': `${p99(later).toFixed(1)} ms`,
    'given to the pod after one deadline': run.givenLater,
    ejections: ejections.length,
    'of others': ejections.filter((address) => address !== addressOf(faulty)).length,
  });
}

describe('one pod goes wrong, with a deadline and no retries: two deadlines later only single trials fail', () => {
  const faults: [string, () => void | Promise<void>][] = [
    ['answers 500 at once', () => faulty.behave({ status: 500, delayMs: 1 })],
    ['resets every connection', () => faulty.behave({ reset: true })],
    ['accepts and never answers', () => faulty.behave({ hang: true })],
  ];
  if (PROOF) faults.push(['is frozen: its kernel accepts, nobody reads', () => faulty.freeze()]);
  const isEjected = (): boolean => ejections.includes(addressOf(faulty));
  const judge = async (what: string, fault: () => void | Promise<void>, isLeftAlone = isEjected): Promise<void> => {
    const result = await run(fault, isLeftAlone);
    print(`one pod ${what}`, result);
    const { healthy, calls, exposed, givenLater, givenEjected, failedOnOthers } = result;
    expect(failed(calls).length - failedOnOthers).toBeLessThanOrEqual(exposed + givenLater);
    expect(isLeftAlone(), `ejected: ${ejections.join()}`).toBe(true);
    // Each ejection is followed by a trial of one call, or one more where that has no verdict.
    expect(givenEjected).toBeLessThanOrEqual(ejections.length + 1);
    if (!PROOF) return;
    expect(failed(healthy)).toEqual([]);
    const later = settled(result);
    expect(failed(later).length / later.length).toBeLessThanOrEqual(0.001);
    expect(failed(calls).length - failed(later).length).toBeLessThanOrEqual(exposed + 5);
  };

  for (const [what, fault] of faults) {
    it(`it ${what}`, { timeout: 150_000 }, async () => {
      faulty = await cluster.addPod();
      await judge(what, fault);
    });
  }

  const otherNetwork = OtherNetwork.create();
  afterAll(() => otherNetwork?.[Symbol.dispose]());
  it.skipIf(otherNetwork === undefined)(
    titleOf(
      'its machine is gone: no FIN, no reset',
      otherNetwork !== undefined,
      'it needs root and network namespaces',
    ),
    { timeout: 150_000 },
    async () => {
      const { address, command } = otherNetwork as OtherNetwork;
      faulty = await cluster.addPod({ host: address, command });
      // Where few calls are running, its connections end with them, and it cannot be connected to before it meets a criterion.
      const isLeftAlone = (): boolean => isEjected() || lost.has(addressOf(faulty));
      await judge('is gone with its machine', () => (otherNetwork as OtherNetwork).pullCable(), isLeftAlone);
    },
  );
});

describe('one pod of several is ten times as slow as it was', () => {
  for (const [name, load] of [
    ['peakEwma', peakEwma()],
    ['inFlight', inFlight()],
  ] as const) {
    // For its figures, which only a proof prints.
    if (!PROOF && name !== 'peakEwma') continue;
    it(`by ${name}: no call fails`, { timeout: 150_000 }, async () => {
      faulty = await cluster.addPod();
      const result = await run(
        () => faulty.behave({ delayMs: 10 * SERVICE_MS }),
        () => true,
        { load },
      );
      print(`one pod is 10 × slow, ${name}`, result);
      expect(failed(result.calls).length).toBe(result.failedOnOthers);
      if (name !== 'peakEwma') return;
      // Far less than its share.
      expect(result.givenLater / result.calls.length).toBeLessThan(0.3 / PODS);
      if (!PROOF) return;
      expect(failed(result.calls)).toEqual([]);
      expect(p99(settled(result))).toBeLessThanOrEqual(2 * p99(result.healthy));
    });
  }
});
