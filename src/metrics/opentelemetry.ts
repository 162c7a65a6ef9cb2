import { catalogue, type MetricName } from './catalogue.js';
import { observedMetrics, type Selection, theCollector } from './collector.js';
import { durationBounds } from './histogram.js';
import type { Metric } from './metric.js';
import type { SeriesAttributes } from './series.js';
import type { Recorder } from './target-meter.js';

interface InstrumentOptions {
  description: string;
  unit: string;
  advice?: { explicitBucketBoundaries: number[] };
}

/** The part of a `Meter` of `@opentelemetry/api` that evenkeel uses. */
export interface MeterLike {
  /** Creates an instrument for durations, in seconds. */
  createHistogram(
    name: string,
    options: InstrumentOptions,
  ): { record(value: number, attributes: Record<string, string | number>): void };
  /** Creates an instrument for counts that only grow. */
  createObservableCounter(name: string, options: InstrumentOptions): object;
  /** Creates an instrument for values of the moment, such as the age of a set. */
  createObservableGauge(name: string, options: InstrumentOptions): object;
  /** Creates an instrument for values of the moment that add up to a whole, such as calls in flight. */
  createObservableUpDownCounter(name: string, options: InstrumentOptions): object;
  /** Registers a function that reports all series together whenever a reader collects. Called once. */
  // biome-ignore lint/suspicious/noExplicitAny: the meter's own instruments go in, of a type only its version knows.
  addBatchObservableCallback(callback: (result: any) => void, observables: any[]): void;
  /** Removes a function that was added with `addBatchObservableCallback`. */
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  removeBatchObservableCallback(callback: (result: any) => void, observables: any[]): void;
}

interface BatchResult {
  observe(observable: object, value: number, attributes: SeriesAttributes): void;
}

/** For each meter that gets reports, the function that ends them. Reporting twice to one meter would count every duration twice. */
const bound = new WeakMap<MeterLike, () => void>();

/**
 * Creates an OpenTelemetry instrument on `meter` for each of evenkeel's metrics, once per meter. Returns a function that ends the reports.
 */
export function bind(meter: MeterLike, selection: Selection): () => void {
  const { perEndpoint } = selection;
  const known = bound.get(meter);
  if (known !== undefined) return known;
  const collector = theCollector();
  const histograms = new Map<MetricName, ReturnType<MeterLike['createHistogram']>>();
  const observables = new Map<MetricName, object>();
  for (const name of Object.keys(catalogue) as MetricName[]) {
    const { kind, unit, description, perEndpoint: isPerEndpoint, additive }: Metric = catalogue[name];
    if (kind === 'histogram') {
      const advice = { explicitBucketBoundaries: [...durationBounds] };
      histograms.set(name, meter.createHistogram(name, { unit, description, advice }));
    } else if (perEndpoint > 0 || isPerEndpoint !== true) {
      const options = { unit, description };
      if (kind === 'counter') observables.set(name, meter.createObservableCounter(name, options));
      else if (additive) observables.set(name, meter.createObservableUpDownCounter(name, options));
      else observables.set(name, meter.createObservableGauge(name, options));
    }
  }
  const record: Recorder = (name, seconds, attributes) => {
    try {
      histograms.get(name)?.record(seconds, attributes);
    } catch {
      // A call must not fail because its duration could not be recorded.
    }
  };
  const observe = (result: BatchResult): void => {
    const set = collector.collect(selection);
    for (const name of observedMetrics) {
      const observable = observables.get(name);
      if (observable === undefined) continue;
      for (const { attributes, value } of set.of(name)) result.observe(observable, value as number, attributes);
    }
  };
  collector.recorders.add(record);
  meter.addBatchObservableCallback(observe, [...observables.values()]);
  const stop = (): void => {
    bound.delete(meter);
    collector.recorders.delete(record);
    meter.removeBatchObservableCallback(observe, [...observables.values()]);
  };
  bound.set(meter, stop);
  return stop;
}
