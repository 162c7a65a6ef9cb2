import { createBalancer } from '../balancer/balancer.js';
import type { Lease } from '../balancer/lease.js';
import type { Endpoint } from '../endpoint/endpoint.js';
import { type Outcome, outcomes } from '../endpoint/outcome.js';
import type { LimitFactory } from '../limit/limit.js';
import type { LoadFactory } from '../load/load.js';
import { inFlightMetric } from '../load/orca.js';
import type { PickerFactory } from '../picker/picker.js';
import type { Connection } from '../pool/transport.js';
import type { ResolverListener } from '../resolver/resolver.js';
import { Random32 } from '../runtime/random32.js';
import { Sfc32 } from '../runtime/rng.js';
import type { StageContext } from '../stage/stage.js';
import { ModelledPod } from './modelled-pod.js';
import type { ServiceModel } from './service-model.js';
import type { Traffic } from './traffic.js';
import { VirtualClock } from './virtual-clock.js';

/** How the calls went. */
export interface Result {
  readonly calls: number;
  readonly failed: number;
  readonly refused: number;
  /** Of the calls that succeeded, waiting included, in ms. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Calls of the busiest pod against the mean. */
  readonly maxOverMean: number;
}

export interface Alternative {
  readonly picker: PickerFactory;
  readonly load: LoadFactory;
  readonly limit: LimitFactory | undefined;
}

/** How the recorded calls went. */
export function asRecorded({ calls, refusedMs, endpoints }: Traffic): Result {
  const perPod = new Map<string, number>();
  for (const { pod } of calls) perPod.set(pod, (perPod.get(pod) ?? 0) + 1);
  const took = calls.filter(({ ok }) => ok).map(({ cameMs, endMs }) => endMs - cameMs);
  return resultOf(took, calls.length, refusedMs.length, [...perPod.values()], endpoints.size);
}

/** Sends the recorded traffic to modelled pods, through a balancer in virtual time. */
export async function whatIf(traffic: Traffic, model: ServiceModel, alternative: Alternative): Promise<Result> {
  const { calls, sets, endpoints, refusedMs } = traffic;
  const clock = new VirtualClock();
  const beganMs = Math.min(sets[0]?.atMs ?? 0, calls[0]?.cameMs ?? 0) - 1;
  const pods = new Map<string, ModelledPod>();
  const keyOf = new Map<string, string>();
  for (const [key, endpoint] of endpoints) {
    keyOf.set(endpoint.key, key);
    pods.set(key, new ModelledPod(key, clock, model.discipline));
  }
  const podOf = (endpoint: Endpoint): ModelledPod => pods.get(keyOf.get(endpoint.key) ?? '') as ModelledPod;
  let weights: ReadonlyMap<string, number> = sets[0]?.weights ?? new Map();
  let listener: ResolverListener | undefined;
  let context: StageContext | undefined;
  const rng = new Sfc32(new Random32(0x5eed));
  const chance = new Random32(rng);
  const balancer = createBalancer<ModelledPod>({
    resolver: {
      name: 'recorded',
      watch: (told) => {
        listener = told;
        return { refresh() {}, close() {} };
      },
    },
    transport: { connect: async (endpoint) => connectionTo(podOf(endpoint)) },
    picker: alternative.picker,
    load: alternative.load,
    ...(alternative.limit !== undefined && { limit: alternative.limit }),
    stages: [
      (given) => {
        context = given;
        return {
          apply: (set) =>
            set.map((entry) => ({ ...entry, weight: weights.get(keyOf.get(entry.endpoint.key) ?? '') ?? 0 })),
        };
      },
    ],
    pool: { maxConnectionAgeMs: Number.POSITIVE_INFINITY, maxConnecting: Number.POSITIVE_INFINITY },
    clock,
    rng,
  });
  listener?.update([...endpoints.values()]);
  await clock.run(0.5);
  for (const { atMs, weights: next } of sets.slice(1)) {
    clock.at(atMs - beganMs, () => {
      weights = next;
      context?.invalidate();
      clock.disturb();
    });
  }
  const took: number[] = [];
  let [made, refused, lastMs] = [0, 0, 0];
  const send = (lease: Lease<ModelledPod>, cameMs: number, work: number): void => {
    made++;
    const pod = lease.handle;
    const atMs = clock.now() + beganMs;
    const { share, tookMs } = model.failing(pod.key, atMs);
    const fails = share > 0 && chance.next() < share;
    let isOver = false;
    const end = (outcome: Outcome): void => {
      isOver = true;
      lease.end(outcome);
      if (alternative.limit !== undefined) clock.disturb();
      if (outcome.kind === 'success') took.push(clock.now() - cameMs);
    };
    const drop = pod.take(fails ? tookMs : work * model.slowness(pod.key, atMs), () => {
      if (isOver) return;
      const report = traffic.reports ? { namedMetrics: { [inFlightMetric]: pod.present + 1 } } : undefined;
      const outcome: Outcome = fails ? outcomes.status : outcomes.success;
      end(report === undefined ? outcome : { ...outcome, report });
    });
    if (model.patienceMs === Number.POSITIVE_INFINITY) return;
    clock.at(clock.now() + model.patienceMs, () => {
      if (isOver) return;
      drop();
      end(outcomes.timeout);
    });
  };
  const come = (key: string | undefined, work: number): void => {
    const cameMs = clock.now();
    const options = key === undefined ? {} : { key };
    const lease = balancer.pick(options);
    if (lease !== undefined) {
      send(lease, cameMs, work);
      return;
    }
    clock.disturb();
    balancer.acquire(options).then(
      (late) => {
        clock.disturb();
        send(late, cameMs, work);
      },
      () => {
        refused++;
      },
    );
  };
  // One event at a time in the queue, however many calls there are.
  const arrivals = arrivalsOf(calls, model.work, refusedMs);
  let next = 0;
  const schedule = (): void => {
    const arrival = arrivals[next++];
    if (arrival === undefined) return;
    lastMs = arrival.atMs - beganMs;
    clock.at(lastMs, () => {
      come(arrival.key, arrival.work);
      schedule();
    });
  };
  schedule();
  while (next <= arrivals.length) await clock.run(lastMs);
  await clock.run(lastMs + 60_000);
  void balancer.close({ signal: AbortSignal.abort() });
  await clock.run(lastMs + 120_000);
  return resultOf(
    took,
    made,
    refused,
    [...pods.values()].map(({ taken }) => taken),
    pods.size,
  );
}

/** Refused calls arrive too, with the work of the call before them. */
function arrivalsOf(calls: Traffic['calls'], work: Float64Array, refusedMs: readonly number[]) {
  const arrivals = calls.map(({ cameMs, key }, index) => ({ atMs: cameMs, key, work: work[index] as number }));
  refusedMs.forEach((atMs, index) => {
    arrivals.push({ atMs, key: undefined, work: work[index % Math.max(1, work.length)] ?? 1 });
  });
  return arrivals.sort((a, b) => a.atMs - b.atMs);
}

function connectionTo(pod: ModelledPod): Connection<ModelledPod> {
  let closed = (_error: undefined): void => {};
  return {
    handle: pod,
    capacity: Number.POSITIVE_INFINITY,
    watchCapacity() {},
    closed: new Promise((resolve) => {
      closed = resolve;
    }),
    close: async () => closed(undefined),
  };
}

function resultOf(took: number[], calls: number, refused: number, perPod: readonly number[], pods: number): Result {
  const sorted = Float64Array.from(took).sort();
  const quantile = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  const most = perPod.reduce((max, count) => Math.max(max, count), 0);
  return {
    calls,
    failed: calls - took.length,
    refused,
    p50Ms: quantile(0.5),
    p99Ms: quantile(0.99),
    maxOverMean: calls === 0 ? 1 : (most * pods) / calls,
  };
}
