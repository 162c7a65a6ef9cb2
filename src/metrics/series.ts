import { catalogue, type MetricName } from './catalogue.js';
import type { Histogram } from './histogram.js';

/** The attributes of a series, by name. */
export type SeriesAttributes = Readonly<Record<string, string | number>>;

/** One series: a metric's value for one set of attributes. */
export interface Series {
  readonly attributes: SeriesAttributes;
  value: number | Histogram;
}

/** The values of all metrics at one moment. Values of several balancers with one target are combined as the metric's `combine` says. */
export class SeriesSet {
  readonly #metrics = new Map<MetricName, Map<string, Series>>();

  of(name: MetricName): readonly Series[] {
    return [...(this.#metrics.get(name)?.values() ?? [])];
  }

  get names(): readonly MetricName[] {
    return [...this.#metrics.keys()];
  }

  /** Adds a balancer's value to a series. Values that are not finite are ignored. */
  add(name: MetricName, attributes: SeriesAttributes, value: number): void {
    if (!Number.isFinite(value)) return;
    const { combine = 'sum' } = catalogue[name];
    const series = this.#at(name, attributes, combine === 'sum' ? 0 : value);
    const before = series.value as number;
    if (combine === 'sum') series.value = before + value;
    else series.value = combine === 'largest' ? Math.max(before, value) : Math.min(before, value);
  }

  addHistogram(name: MetricName, attributes: SeriesAttributes, histogram: Histogram): void {
    this.#at(name, attributes, histogram);
  }

  #at(name: MetricName, attributes: SeriesAttributes, initial: Series['value']): Series {
    let metric = this.#metrics.get(name);
    if (metric === undefined) {
      metric = new Map();
      this.#metrics.set(name, metric);
    }
    // The key of a series joins its attribute values with NUL, which no name in Kubernetes contains.
    const key = Object.values(attributes).join('\0');
    let series = metric.get(key);
    if (series === undefined) {
      series = { attributes, value: initial };
      metric.set(key, series);
    }
    return series;
  }
}
