import type { RecordedCall } from './traffic.js';

/**
 * How a pod works: on at most `places` calls at once, while the others wait in order (`queue`); or on all at once, each at the full
 * speed of a core while there are no more calls than cores (`shared`).
 */
export interface Discipline {
  readonly kind: 'queue' | 'shared';
  /** Infinity: calls do not slow each other down. */
  readonly places: number;
}

/** What the recording says about how long calls take. */
export interface ServiceModel {
  readonly discipline: Discipline;
  /** How strongly the modelled work still depends on the number of calls in flight, 0 to 1: 0 = the model explains all of it. */
  readonly rest: number;
  /** Work of each call on a pod of ordinary speed, in ms, in the order of the calls. */
  readonly work: Float64Array;
  /** How long until callers give up, in ms; Infinity if none did. */
  readonly patienceMs: number;
  /** How many times longer than usual a call takes on this pod at that time. */
  slowness(pod: string, atMs: number): number;
  /** The share of calls that fail on this pod at that time, and how long such a call takes, in ms. */
  failing(pod: string, atMs: number): { readonly share: number; readonly tookMs: number };
}

const PLACES: readonly number[] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, Number.POSITIVE_INFINITY];
/** Slowness and failures are averaged over windows of this length, in ms. */
const WINDOW_MS = 1_000;
/** A pod, or a window, is slower than usual only if it differs by this many standard deviations of its mean. */
const SIGNIFICANT = 3;
/** Numbers of calls in flight below this are told apart one by one, larger ones in classes. */
const EACH = 12;
/** Amounts of work below this are not told apart, in ms. */
const LEAST_MS = 0.01;
/** A queue under which more than this share of the calls would have ended before they began is ruled out. */
const MOST_IMPOSSIBLE = 0.002;

/** Finds the discipline under which the work of a call depends least on how many others were in flight. */
export function fitService(calls: readonly RecordedCall[]): ServiceModel {
  const order = calls
    .map((_, index) => index)
    .sort((a, b) => (calls[a] as RecordedCall).atMs - (calls[b] as RecordedCall).atMs);
  const byPod = new Map<string, number[]>();
  for (const index of order) {
    const { pod } = calls[index] as RecordedCall;
    const indexes = byPod.get(pod);
    if (indexes === undefined) byPod.set(pod, [index]);
    else indexes.push(index);
  }
  const crowd = new Float64Array(calls.length);
  for (const indexes of byPod.values()) countCrowd(calls, indexes, crowd);
  let best: { discipline: Discipline; rest: number; work: Float64Array } | undefined;
  for (const kind of ['queue', 'shared'] as const) {
    for (const places of PLACES) {
      const work = new Float64Array(calls.length);
      let impossible = 0;
      for (const indexes of byPod.values()) {
        impossible += kind === 'queue' ? queued(calls, indexes, places, work) : shared(calls, indexes, places, work);
      }
      if (impossible > MOST_IMPOSSIBLE * calls.length) continue;
      const rest = dependence(calls, byPod, work, crowd);
      if (best === undefined || Math.abs(rest) < Math.abs(best.rest) - 0.005)
        best = { discipline: { kind, places }, rest, work };
    }
  }
  const found = best ?? {
    discipline: { kind: 'queue' as const, places: Number.POSITIVE_INFINITY },
    rest: 0,
    work: Float64Array.from(calls, ({ atMs, endMs }) => Math.max(LEAST_MS, endMs - atMs)),
  };
  const gaveUp = Float64Array.from(
    calls.filter((call) => call.gaveUp),
    ({ atMs, endMs }) => endMs - atMs,
  ).sort();
  const patienceMs = gaveUp[gaveUp.length >> 1] ?? Number.POSITIVE_INFINITY;
  return { ...found, patienceMs, ...overTime(calls, byPod, found.work) };
}

/** How many calls were in flight on the pod when each call arrived. */
function countCrowd(calls: readonly RecordedCall[], indexes: readonly number[], crowd: Float64Array): void {
  const ends = indexes.map((index) => (calls[index] as RecordedCall).endMs).sort((a, b) => a - b);
  let ended = 0;
  indexes.forEach((index, begun) => {
    while (ended < begun && (ends[ended] as number) <= (calls[index] as RecordedCall).atMs) ended++;
    crowd[index] = begun - ended;
  });
}

/** Returns how many calls would have ended before they began. */
function queued(
  calls: readonly RecordedCall[],
  indexes: readonly number[],
  places: number,
  work: Float64Array,
): number {
  let impossible = 0;
  /** When the calls being worked on end; unordered. */
  const busy: number[] = [];
  for (const index of indexes) {
    const { atMs, endMs } = calls[index] as RecordedCall;
    let beginsMs = atMs;
    if (busy.length >= places) {
      let first = 0;
      for (let at = 1; at < busy.length; at++) if ((busy[at] as number) < (busy[first] as number)) first = at;
      beginsMs = Math.max(atMs, busy[first] as number);
      busy[first] = endMs;
    } else if (places !== Number.POSITIVE_INFINITY) busy.push(endMs);
    if (endMs < beginsMs - LEAST_MS) impossible++;
    work[index] = Math.max(LEAST_MS, endMs - beginsMs);
  }
  return impossible;
}

function shared(calls: readonly RecordedCall[], indexes: readonly number[], cores: number, work: Float64Array): 0 {
  const moments = indexes.flatMap((index) => {
    const { atMs, endMs } = calls[index] as RecordedCall;
    return [
      { atMs, index, step: 1 },
      { atMs: Math.max(endMs, atMs), index, step: -1 },
    ];
  });
  // At equal times ends come first, but no call ends before it begins.
  moments.sort((a, b) => a.atMs - b.atMs || b.step - a.step);
  let [present, lastMs, served] = [0, moments[0]?.atMs ?? 0, 0];
  for (const { atMs, index, step } of moments) {
    if (present > 0) served += (atMs - lastMs) * Math.min(1, cores / present);
    lastMs = atMs;
    present += step;
    work[index] = step === 1 ? served : Math.max(LEAST_MS, served - (work[index] as number));
  }
  return 0;
}

/**
 * How much of the variance of the logarithm of work is between different numbers of calls in flight, within pods, as a correlation:
 * Pearson's correlation ratio. Unlike his coefficient it also finds relations that are not linear.
 */
function dependence(
  calls: readonly RecordedCall[],
  byPod: ReadonlyMap<string, readonly number[]>,
  work: Float64Array,
  crowd: Float64Array,
): number {
  let [between, total] = [0, 0];
  for (const all of byPod.values()) {
    const indexes = all.filter((index) => (calls[index] as RecordedCall).ok);
    const logs = indexes.map((index) => Math.log(work[index] as number));
    const usual = mean(logs);
    const classes = new Map<number, { count: number; sum: number }>();
    indexes.forEach((index, at) => {
      const log = (logs[at] as number) - usual;
      total += log * log;
      const size = crowd[index] as number;
      const key = size < EACH ? size : EACH + Math.floor(2 * Math.log2(size / EACH));
      const known = classes.get(key) ?? { count: 0, sum: 0 };
      known.count++;
      known.sum += log;
      classes.set(key, known);
    });
    // Subtract what chance alone would put between this many classes.
    const variance = logs.reduce((sum, log) => sum + (log - usual) ** 2, 0) / Math.max(1, logs.length);
    for (const { count, sum } of classes.values()) between += (sum * sum) / count - variance;
  }
  return total === 0 ? 0 : Math.sqrt(Math.max(0, between / total));
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Sums over the calls of a pod: in total, and per window. */
interface Sums {
  count: number;
  logs: number;
  squares: number;
  failed: number;
  failedMs: number;
}

function overTime(
  calls: readonly RecordedCall[],
  byPod: ReadonlyMap<string, readonly number[]>,
  work: Float64Array,
): Pick<ServiceModel, 'slowness' | 'failing' | 'work'> {
  const windows = new Map<string, Sums>();
  const pods = new Map<string, Sums>();
  const all: Sums = { count: 0, logs: 0, squares: 0, failed: 0, failedMs: 0 };
  const windowOf = (pod: string, atMs: number): string => `${pod} ${Math.floor(atMs / WINDOW_MS)}`;
  const sumsOf = (map: Map<string, Sums>, key: string): Sums => {
    const known = map.get(key) ?? { count: 0, logs: 0, squares: 0, failed: 0, failedMs: 0 };
    map.set(key, known);
    return known;
  };
  for (const [pod, indexes] of byPod) {
    for (const index of indexes) {
      const { atMs, endMs, ok, gaveUp } = calls[index] as RecordedCall;
      // They do not say how long the pod would have taken.
      if (gaveUp) continue;
      for (const sums of [all, sumsOf(pods, pod), sumsOf(windows, windowOf(pod, atMs))]) {
        if (ok) {
          sums.count++;
          const log = Math.log(work[index] as number);
          sums.logs += log;
          sums.squares += log * log;
        } else {
          sums.failed++;
          sums.failedMs += endMs - atMs;
        }
      }
    }
  }
  const usual = all.count === 0 ? 0 : all.logs / all.count;
  const deviation = Math.sqrt(Math.max(0, all.squares / Math.max(1, all.count) - usual * usual));
  /** The mean of the logarithms, if it differs significantly from `overall`. */
  const told = ({ count, logs }: Sums, overall: number): number => {
    if (count === 0) return overall;
    const differs = Math.abs(logs / count - overall) * Math.sqrt(count) > SIGNIFICANT * deviation;
    return differs ? logs / count : overall;
  };
  const logSlowness = (pod: string, atMs: number): number => {
    const whole = pods.get(pod);
    const ofPod = whole === undefined ? usual : told(whole, usual);
    const here = windows.get(windowOf(pod, atMs));
    return (here === undefined ? ofPod : told(here, ofPod)) - usual;
  };
  const slowness = (pod: string, atMs: number): number => Math.exp(logSlowness(pod, atMs));
  const normalized = Float64Array.from(work, (ms, index) => {
    const { pod, atMs, ok } = calls[index] as RecordedCall;
    return ok ? ms / slowness(pod, atMs) : Math.exp(usual);
  });
  return {
    work: normalized,
    slowness,
    failing(pod, atMs) {
      const here = windows.get(windowOf(pod, atMs)) ?? pods.get(pod);
      if (here === undefined || here.failed === 0) return { share: 0, tookMs: 0 };
      return { share: here.failed / (here.failed + here.count), tookMs: here.failedMs / here.failed };
    },
  };
}
