import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import type { Clock, Timer } from '../runtime/clock.js';
import { type CpuBudget, cpuBudget, type ReadText } from './cpu-limit.js';
import type { ReportedLoad } from './reported-load.js';
import type { RequestCount } from './request-count.js';

/** The sources from which the samples of a load report are taken. */
export interface SamplesParts {
  readonly clock: Clock;
  readonly count: RequestCount;
  /** The interval between two samples, in ms. */
  readonly sampleMs: number;
  /** The application's own value for how full it is. */
  readonly utilization: (() => number) | undefined;
  readonly metrics: (() => Readonly<Record<string, number>>) | undefined;
  readonly read: ReadText;
  /** The use of the event loop since the start, or since an earlier reading. */
  readonly eventLoop?: (since?: EventLoopUtilization) => EventLoopUtilization;
}

/** Milliseconds between two readings of the CPU limits: Kubernetes can change them while a pod runs. */
const LIMITS_EVERY_MS = 30_000;
/** How many own metrics an application may have, and which names are valid: a header has no room for more. */
const MAX_METRICS = 32;
const METRIC_NAME = /^[\w.:/-]{1,64}$/;

const nothing: ReportedLoad = Object.freeze({ named_metrics: Object.freeze({}) });

/** Everything in a report but the number of requests in flight. Sampled in the background, so that no request pays for it. */
export class Samples {
  /** The latest sample of the pod's load; a new object each time. */
  load: ReportedLoad = nothing;
  readonly #parts: SamplesParts;
  readonly #eventLoop: (since?: EventLoopUtilization) => EventLoopUtilization;
  #timer: Timer | undefined;
  #closed = false;
  #budget: CpuBudget | undefined;
  #budgetAtMs = Number.NEGATIVE_INFINITY;
  #usedMs: number | undefined;
  #loop: EventLoopUtilization;
  #begun = 0;
  #failed = 0;
  #atMs: number;

  constructor(parts: SamplesParts) {
    this.#parts = parts;
    this.#eventLoop = parts.eventLoop ?? ((since) => performance.eventLoopUtilization(since));
    this.#loop = this.#eventLoop();
    this.#atMs = parts.clock.now();
    void this.#next();
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  /** Takes a sample and schedules the next. Never rejects. */
  async #next(): Promise<void> {
    const { clock, sampleMs } = this.#parts;
    try {
      await this.#sample();
    } catch {
      // The error is ignored: the file with the CPU time may be readable next time.
    }
    if (!this.#closed) this.#timer = clock.timer(() => void this.#next(), sampleMs);
  }

  async #sample(): Promise<void> {
    const { clock, count, utilization, metrics } = this.#parts;
    const usedMs = await this.#cpuUsed();
    const nowMs = clock.now();
    const elapsedMs = nowMs - this.#atMs;
    const loop = this.#eventLoop();
    const eventLoop = this.#eventLoop(this.#loop).utilization;
    const before = this.#usedMs;
    const { begun, failed } = count;
    const perSecond = (calls: number): number => rounded((calls * 1_000) / elapsedMs);
    const isFirst = elapsedMs <= 0;
    const cpu =
      isFirst || before === undefined || usedMs === undefined
        ? undefined
        : Math.max(0, (usedMs - before) / elapsedMs / (this.#budget?.cores ?? 1));
    const reported = resultOf(utilization);
    const application = isMeasure(reported)
      ? reported
      : utilization === undefined
        ? Math.max(eventLoop, cpu ?? 0)
        : undefined;
    if (!isFirst && !this.#closed) {
      this.load = {
        ...(application !== undefined && { application_utilization: rounded(application) }),
        ...(cpu !== undefined && { cpu_utilization: rounded(cpu) }),
        rps_fractional: perSecond(begun - this.#begun),
        // A value is left out if it is 0: every byte of a header costs the requests that ask for it.
        ...(failed > this.#failed && { eps: perSecond(failed - this.#failed) }),
        named_metrics: { evenkeel_event_loop: rounded(eventLoop), ...ownMetrics(resultOf(metrics)) },
      };
    }
    this.#usedMs = usedMs;
    this.#loop = loop;
    this.#begun = begun;
    this.#failed = failed;
    this.#atMs = nowMs;
  }

  async #cpuUsed(): Promise<number | undefined> {
    const { clock, read } = this.#parts;
    if (clock.now() - this.#budgetAtMs >= LIMITS_EVERY_MS) {
      this.#budgetAtMs = clock.now();
      const budget = await cpuBudget(read);
      // A changed limit may belong to another cgroup, whose times are unrelated to earlier readings.
      if (budget.cores !== this.#budget?.cores) this.#usedMs = undefined;
      this.#budget = budget;
    }
    return this.#budget?.usedMs();
  }
}

/** The result of a function of the application; undefined if it throws. */
function resultOf<T>(callback: (() => T) | undefined): T | undefined {
  try {
    return callback?.();
  } catch {
    return undefined;
  }
}

/** The valid ones among the application's own metrics; the others are left out. */
function ownMetrics(metrics: unknown): Record<string, number> {
  const own: Record<string, number> = {};
  if (typeof metrics !== 'object' || metrics === null) return own;
  let left = MAX_METRICS;
  for (const [name, value] of Object.entries(metrics)) {
    if (left === 0) break;
    // Names that start with evenkeel_ are reserved.
    if (!METRIC_NAME.test(name) || name.startsWith('evenkeel_') || !isMeasure(value)) continue;
    own[name] = value;
    left--;
  }
  return own;
}

function isMeasure(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

/** Rounds a number in a load report: three significant digits are enough. */
function rounded(value: number): number {
  return Math.round(value * 1_000) / 1_000;
}
