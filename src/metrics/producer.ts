import { dateIn } from '../runtime/wall-clock.js';
import { catalogue, type MetricName } from './catalogue.js';
import { type Collector, type Selection, theCollector } from './collector.js';
import { durationBounds, Histogram } from './histogram.js';
import type { Metric } from './metric.js';
import type { Series, SeriesAttributes } from './series.js';

/** A time in OpenTelemetry's form: seconds since 1970, and nanoseconds. */
type Time = [seconds: number, nanoseconds: number];

/**
 * The values of `AggregationTemporality` in `@opentelemetry/sdk-metrics`. All numbers of enums in this file are equal in its versions 1.x,
 * 2.x and 3.x.
 */
const temporalities = { delta: 0, cumulative: 1 } as const;

/** How counts are reported: `cumulative` since the process started, or `delta` since the last report. */
export type Temporality = keyof typeof temporalities;

interface Point<Value> {
  startTime: Time;
  endTime: Time;
  attributes: Record<string, string | number>;
  value: Value;
}

interface Buckets {
  buckets: { boundaries: number[]; counts: number[] };
  sum: number;
  count: number;
}

interface Descriptor {
  name: string;
  description: string;
  unit: string;
  /** The type of the values: 1 = DOUBLE. */
  valueType: 1;
  // biome-ignore lint/suspicious/noExplicitAny: 1.x has it, as an enum of strings, which no string fits.
  type: any;
}

/** One metric with its series, in the form that `@opentelemetry/sdk-metrics` passes to exporters. */
export type MetricDataLike = {
  /** The metric's name, unit and description. */
  descriptor: Descriptor;
  /** Whether values are differences since the last report (0) or totals (1). */
  aggregationTemporality: 0 | 1;
} & (
  | {
      /** The kind of the metric: 0 = histogram, 2 = gauge, 3 = sum. */
      dataPointType: 0;
      /** The metric's values, one for each set of attributes. */
      dataPoints: Point<Buckets>[];
    }
  | { dataPointType: 2; dataPoints: Point<number>[] }
  | {
      dataPointType: 3;
      dataPoints: Point<number>[];
      /** Whether the sum can only grow. */
      isMonotonic: boolean;
    }
);

/** The interface `MetricProducer` of `@opentelemetry/sdk-metrics`. */
export interface MetricProducerLike {
  /** Returns all series at this moment. Metric readers call it. Never rejects; failures are in `errors`. */
  collect(): Promise<{
    resourceMetrics: {
      // biome-ignore lint/suspicious/noExplicitAny: readers put their own resource in its place.
      resource: any;
      scopeMetrics: { scope: { name: string }; metrics: MetricDataLike[] }[];
    };
    errors: unknown[];
  }>;
}

/** The value of each series at the last report, from which differences are computed. */
type Before = ReadonlyMap<string, number | Histogram>;

/**
 * Reports the collector's counts to an OpenTelemetry reader, without any cost per call. A producer that reports differences (`delta`) can
 * serve only one reader.
 */
export class Producer implements MetricProducerLike {
  readonly #collector: Collector;
  readonly #selection: Selection;
  readonly #temporality: Temporality;
  readonly #beganAt: Time;
  #startTime: Time;
  #before: Before = new Map();

  constructor(selection: Selection, temporality: Temporality, collector: Collector = theCollector()) {
    this.#collector = collector;
    this.#selection = selection;
    this.#temporality = temporality;
    this.#beganAt = timeIn(-1_000 * process.uptime());
    this.#startTime = this.#beganAt;
  }

  async collect(): ReturnType<MetricProducerLike['collect']> {
    const endTime = timeIn(0);
    const errors: unknown[] = [];
    const metrics: MetricDataLike[] = [];
    try {
      this.#addMetrics(metrics, endTime);
    } catch (error) {
      errors.push(error);
    }
    return { resourceMetrics: { resource: {}, scopeMetrics: [{ scope: { name: 'evenkeel' }, metrics }] }, errors };
  }

  #addMetrics(metrics: MetricDataLike[], endTime: Time): void {
    const set = this.#collector.collect(this.#selection);
    const now = new Map<string, number | Histogram>();
    const isDelta = this.#temporality === 'delta';
    for (const name of Object.keys(catalogue) as MetricName[]) {
      const series = set.of(name);
      if (series.length === 0) continue;
      const { kind, description, unit, additive }: Metric = catalogue[name];
      const common = {
        descriptor: {
          name,
          description,
          unit,
          valueType: 1,
          type: additive ? 'OBSERVABLE_UP_DOWN_COUNTER' : instrumentTypes[kind],
        } as const,
        aggregationTemporality: temporalities[this.#temporality],
      };
      const times = { startTime: this.#startTime, endTime };
      if (kind === 'gauge') {
        const dataPoints = series.map((one) =>
          numberPoint(one, additive ? { startTime: this.#beganAt, endTime } : times, 0),
        );
        // Sums that can also fall are always reported as totals, even if differences are wanted.
        if (additive) {
          const aggregationTemporality = temporalities.cumulative;
          metrics.push({ ...common, aggregationTemporality, dataPointType: 3, dataPoints, isMonotonic: false });
        } else metrics.push({ ...common, dataPointType: 2, dataPoints });
        continue;
      }
      const before = (one: Series): number | Histogram | undefined => {
        if (!isDelta) return undefined;
        const key = `${name}\n${JSON.stringify(one.attributes)}`;
        now.set(key, one.value instanceof Histogram ? one.value.copy() : one.value);
        return this.#before.get(key);
      };
      if (kind === 'counter') {
        const dataPoints = series.map((one) => numberPoint(one, times, (before(one) as number | undefined) ?? 0));
        metrics.push({ ...common, dataPointType: 3, dataPoints, isMonotonic: true });
      } else {
        const dataPoints = series.map((one) => histogramPoint(one, times, before(one) as Histogram | undefined));
        metrics.push({ ...common, dataPointType: 0, dataPoints });
      }
    }
    if (!isDelta) return;
    this.#before = now;
    this.#startTime = endTime;
  }
}

const instrumentTypes = {
  counter: 'OBSERVABLE_COUNTER',
  gauge: 'OBSERVABLE_GAUGE',
  histogram: 'HISTOGRAM',
} as const;

type Times = Pick<Point<never>, 'startTime' | 'endTime'>;

function numberPoint({ attributes, value }: Series, times: Times, before: number): Point<number> {
  const now = value as number;
  // An endpoint that left and came back counts its calls from 0 again.
  return { ...times, attributes: copied(attributes), value: now >= before ? now - before : now };
}

function histogramPoint({ attributes, value }: Series, times: Times, before: Histogram | undefined): Point<Buckets> {
  const { counts, sum } = value as Histogram;
  const since = Array.from(counts, (count, bucket) => count - (before?.counts[bucket] ?? 0));
  const count = since.reduce((total, one) => total + one, 0);
  const buckets = { boundaries: [...durationBounds], counts: since };
  return { ...times, attributes: copied(attributes), value: { buckets, sum: sum - (before?.sum ?? 0), count } };
}

/** Copies a series' attributes, because exporters may add to them. */
const copied = (attributes: SeriesAttributes): Record<string, string | number> => ({ ...attributes });

function timeIn(delayMs: number): Time {
  const ms = dateIn(delayMs);
  const seconds = Math.floor(ms / 1_000);
  return [seconds, Math.round((ms - 1_000 * seconds) * 1e6)];
}
