import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import type { Clock, Timer } from '../../runtime/clock.js';
import type { RequestCount } from '../request-count.js';
import { resultOf } from '../result-of.js';
import { type CpuBudget, cpuBudget, type ReadText } from './cpu-limit.js';
import type { ReportedLoad } from './orca-message.js';

/** Where the samples in a load report come from. */
export interface SamplesParts {
  readonly clock: Clock;
  readonly count: RequestCount;
  /** How often a sample is taken, in ms. */
  readonly sampleMs: number;
  /** Returns how full the application is, by its own measure. */
  readonly utilization: (() => number) | undefined;
  readonly metrics: (() => Readonly<Record<string, number>>) | undefined;
  readonly read: ReadText;
  /** Returns how much the event loop was used since the process began, or since an earlier reading. */
  readonly eventLoop?: (since?: EventLoopUtilization) => EventLoopUtilization;
}

/** How often the CPU limits are read, in ms, because Kubernetes can change them while a pod runs. */
const LIMITS_EVERY_MS = 30_000;
/** How many metrics of its own an application may report, and which names they may have, because a header has no room for more. */
const MAX_METRICS = 32;
const METRIC_NAME = /^[\w.:/-]{1,64}$/;

const nothing: ReportedLoad = Object.freeze({ named_metrics: Object.freeze({}) });

/**
 * Samples everything in a load report except the number of requests in flight. It works in the background, so that no request pays for it.
 */
export class Samples {
  /** The latest sample of the pod's load. Each sample is a new object. */
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

  /** Takes a sample and schedules the next one. Never rejects. */
  async #next(): Promise<void> {
    const { clock, sampleMs } = this.#parts;
    try {
      await this.#sample();
    } catch {
      // The error is ignored, because the file with the CPU time may be readable again at the next sample.
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
        // A value of 0 is left out, because every byte of a header costs the requests that ask for it.
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
      // If the limit changed, it may belong to another cgroup, whose CPU time has nothing to do with earlier readings.
      if (budget.cores !== this.#budget?.cores) this.#usedMs = undefined;
      this.#budget = budget;
    }
    return this.#budget?.usedMs();
  }
}

/** Returns the valid ones among the application's own metrics; the others are left out. */
function ownMetrics(metrics: unknown): Record<string, number> {
  const own: Record<string, number> = {};
  if (typeof metrics !== 'object' || metrics === null) return own;
  let left = MAX_METRICS;
  for (const [name, value] of Object.entries(metrics)) {
    if (left === 0) break;
    // Names that start with `evenkeel_` are reserved for evenkeel's own metrics.
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
