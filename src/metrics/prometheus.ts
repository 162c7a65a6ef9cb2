import { catalogue, type MetricName } from './catalogue.js';
import { durationBounds, type Histogram } from './histogram.js';
import type { Metric } from './metric.js';
import type { SeriesAttributes, SeriesSet } from './series.js';

/** Returns the name of a metric in Prometheus, formed as OpenTelemetry's exporter does. */
export function prometheusName(name: MetricName): string {
  const { kind, unit }: Metric = catalogue[name];
  const parts = [name.replaceAll('.', '_')];
  if (unit === 's') parts.push('seconds');
  if (unit === '1' && kind === 'gauge') parts.push('ratio');
  if (kind === 'counter') parts.push('total');
  return parts.join('_');
}

/** Writes all series of a set in Prometheus' text format, version 0.0.4. */
export function prometheusFormat(set: SeriesSet): string {
  const lines: string[] = [];
  // The texts of attributes are kept, because the metrics of one endpoint share one attributes object.
  const known = new Map<SeriesAttributes, string>();
  const labelsOf = (attributes: SeriesAttributes): string => {
    let text = known.get(attributes);
    if (text === undefined) {
      text = labels(attributes);
      known.set(attributes, text);
    }
    return text;
  };
  for (const name of Object.keys(catalogue) as MetricName[]) {
    const series = set.of(name);
    if (series.length === 0) continue;
    const { kind, description } = catalogue[name];
    const shown = prometheusName(name);
    lines.push(`# HELP ${shown} ${description}`, `# TYPE ${shown} ${kind}`);
    for (const { attributes, value } of series) {
      if (typeof value === 'number') lines.push(`${shown}${labelsOf(attributes)} ${value}`);
      else lines.push(...histogramLines(shown, attributes, value));
    }
  }
  return `${lines.join('\n')}\n`;
}

function histogramLines(name: string, attributes: SeriesAttributes, { counts, sum }: Histogram): string[] {
  let total = 0;
  const lines = [...durationBounds, '+Inf'].map((bound, bucket) => {
    total += counts[bucket] as number;
    return `${name}_bucket${labels({ ...attributes, le: String(bound) })} ${total}`;
  });
  return [...lines, `${name}_sum${labels(attributes)} ${sum}`, `${name}_count${labels(attributes)} ${total}`];
}

function labels(attributes: SeriesAttributes): string {
  const pairs = Object.entries(attributes).map(
    ([name, value]) => `${name.replaceAll('.', '_')}="${escaped(String(value))}"`,
  );
  return `{${pairs.join(',')}}`;
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
