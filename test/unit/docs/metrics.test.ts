import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { catalogue, type MetricName } from '../../../src/metrics/catalogue.js';
import type { Metric } from '../../../src/metrics/metric.js';
import { prometheusName } from '../../../src/metrics/prometheus.js';
import { tableRows, textOf } from '../../support/docs-page.js';

const names = Object.keys(catalogue) as MetricName[];
const code = (cell = ''): string => cell.replaceAll('`', '');
const raw = (path: string): string => readFileSync(new URL(`../../../docs/${path}`, import.meta.url), 'utf8');

describe('docs/reference/metrics.md', () => {
  const page = textOf('docs/reference/metrics.md');

  it('has every metric in the order of the source, with its name in Prometheus, kind, meaning and attributes', () => {
    const rows = tableRows(page).filter(([name = '']) => names.includes(code(name) as MetricName));
    const listed = rows.map(([name, shown, kind, meaning, attributes]) => ({
      name: code(name),
      shown: code(shown),
      kind,
      meaning,
      attributes: attributes === '–' ? [] : code(attributes).split(', '),
    }));
    expect(listed).toEqual(
      names.map((name) => {
        const { kind, description, attributes = [] }: Metric = catalogue[name];
        const short = attributes.map((attribute) => attribute.replace(/^evenkeel\./, ''));
        return { name, shown: prometheusName(name), kind, meaning: description, attributes: short };
      }),
    );
  });
});

describe('files that operators import', () => {
  /** What Prometheus knows by these names, the parts of histograms included. */
  const series = new Set(
    names.flatMap((name) => {
      const shown = prometheusName(name);
      if (catalogue[name].kind !== 'histogram') return [shown];
      return [`${shown}_bucket`, `${shown}_sum`, `${shown}_count`];
    }),
  );
  const labels = new Set(['evenkeel_target', 'evenkeel_served']);
  for (const name of names) {
    const { attributes = [] }: Metric = catalogue[name];
    for (const attribute of attributes) labels.add(attribute.replaceAll('.', '_'));
  }
  const unknown = (text: string): string[] =>
    [...new Set(text.match(/\bevenkeel_[a-z_]+/g))].filter((word) => !series.has(word) && !labels.has(word));

  it('alerts.yaml and the board name metrics and labels that exist', () => {
    for (const file of ['operating/alerts.yaml', 'operating/dashboard.json', 'operating/runbook.md']) {
      expect(unknown(raw(file)), file).toEqual([]);
    }
  });

  it('the board has a query in every panel, and uses each metric that alerts use', () => {
    const { panels } = JSON.parse(raw('operating/dashboard.json')) as {
      panels: { title: string; targets: { expr: string }[] }[];
    };
    for (const { title, targets } of panels) {
      for (const { expr } of targets) expect(expr, title).toContain('evenkeel_target=~"$target"');
    }
    const shown = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)).join('\n');
    const paged = raw('operating/alerts.yaml').match(/\bevenkeel_[a-z_]+/g) ?? [];
    const missing = [...new Set(paged)].filter((name) => series.has(name) && !shown.includes(name));
    // What a rate is compared to is on the board under another metric.
    const elsewhere = ['evenkeel_calls_total', 'evenkeel_wait_duration_seconds_count'];
    expect(missing.sort()).toEqual(elsewhere);
  });

  it('every alert has its section in the runbook', () => {
    const { groups } = parse(raw('operating/alerts.yaml')) as {
      groups: { rules: { alert: string; annotations: { runbook: string } }[] }[];
    };
    const anchors = [...raw('operating/runbook.md').matchAll(/^## (.+)$/gm)].map(([, title = '']) =>
      title.toLowerCase().replaceAll(' ', '-'),
    );
    const rules = groups.flatMap((group) => group.rules);
    expect(rules.length).toBeGreaterThan(5);
    for (const { alert, annotations } of rules) {
      const [page, anchor = ''] = annotations.runbook.split('#');
      expect(page, alert).toBe('docs/operating/runbook.md');
      expect(anchors, alert).toContain(anchor);
      expect(raw('operating/runbook.md'), alert).toContain(`\`${alert}\``);
    }
  });
});
