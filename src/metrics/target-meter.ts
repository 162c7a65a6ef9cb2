import type { Outcome } from '../endpoint/outcome.js';
import type { CallMeter } from '../observe/live-balancers.js';
import type { MetricName } from './catalogue.js';
import { Histogram } from './histogram.js';
import type { SeriesAttributes, SeriesSet } from './series.js';

/** Called for each measured duration, in addition to counting it in the histogram. Each OpenTelemetry meter has one. */
export type Recorder = (name: MetricName, seconds: number, attributes: SeriesAttributes) => void;

/** A histogram and the attributes of its series. */
class Durations {
  readonly histogram: Histogram = new Histogram();
  readonly name: MetricName;
  readonly attributes: SeriesAttributes;
  readonly #recorders: ReadonlySet<Recorder>;

  constructor(name: MetricName, attributes: SeriesAttributes, recorders: ReadonlySet<Recorder>) {
    this.name = name;
    this.attributes = attributes;
    this.#recorders = recorders;
  }

  record(durationMs: number): void {
    const seconds = Math.max(0, durationMs) / 1_000;
    this.histogram.record(seconds);
    for (const recorder of this.#recorders) recorder(this.name, seconds, this.attributes);
  }
}

/** Measures the calls of all balancers of one target. */
export class TargetMeter implements CallMeter {
  readonly #target: string;
  readonly #recorders: ReadonlySet<Recorder>;
  readonly #all: Durations[] = [];
  /** The histogram of successful calls. It is kept separately so that it needs no look-up, because most calls succeed. */
  readonly #succeeded: Durations;
  readonly #byOutcome = new Map<string, Durations>();
  readonly #served: Durations;
  readonly #refused: Durations;

  constructor(target: string, recorders: ReadonlySet<Recorder>) {
    this.#target = target;
    this.#recorders = recorders;
    this.#succeeded = this.#durations('evenkeel.attempt.duration', { 'evenkeel.outcome': 'success' });
    this.#served = this.#durations('evenkeel.wait.duration', { 'evenkeel.served': 'true' });
    this.#refused = this.#durations('evenkeel.wait.duration', { 'evenkeel.served': 'false' });
  }

  attemptEnded({ kind, cause }: Outcome, durationMs: number): void {
    if (kind === 'success') this.#succeeded.record(durationMs);
    else this.#of(cause ?? kind).record(durationMs);
  }

  waited(durationMs: number, served: boolean): void {
    (served ? this.#served : this.#refused).record(durationMs);
  }

  addTo(set: SeriesSet): void {
    for (const { name, attributes, histogram } of this.#all) set.addHistogram(name, attributes, histogram);
  }

  #of(outcome: string): Durations {
    let durations = this.#byOutcome.get(outcome);
    if (durations === undefined) {
      durations = this.#durations('evenkeel.attempt.duration', { 'evenkeel.outcome': outcome });
      this.#byOutcome.set(outcome, durations);
    }
    return durations;
  }

  #durations(name: MetricName, attributes: SeriesAttributes): Durations {
    const all = Object.freeze({ 'evenkeel.target': this.#target, ...attributes });
    const durations = new Durations(name, all, this.#recorders);
    this.#all.push(durations);
    return durations;
  }
}
