/** The two tables of a benchmark that compares clients: what was measured, and how it stands against what is wanted. */
import { grouped, table, withInterval } from './table.mjs';

const words = { perSecond: 'requests/s', cpuUs: 'client CPU per request', p50: 'p50', p99: 'p99' };

/**
 * @typedef {object} Wanted
 * @property {string} name
 * @property {string} against
 * @property {keyof typeof words} figure
 * @property {number} [atLeast] one of the two
 * @property {number} [atMost]
 */

/**
 * Medians of every subject.
 * @param {import('./rounds.mjs').Results} results @param {readonly string[]} names
 */
export function figureTable(results, names) {
  return table(
    ['median', 'requests/s', 'CPU µs/request', 'p50 ms', 'p99 ms'],
    names.map((name) => [
      name,
      grouped(results.median(name, 'perSecond')),
      results.median(name, 'cpuUs').toFixed(1),
      results.median(name, 'p50').toFixed(2),
      results.median(name, 'p99').toFixed(2),
    ]),
  );
}

/**
 * Ratios with their verdicts, and the baseline against itself.
 * @param {import('./rounds.mjs').Results} results @param {readonly Wanted[]} wanted
 */
export function ratioTable(results, wanted) {
  const rows = wanted.map(({ name, against, figure, ...limit }) => [
    `${name} : ${against}`,
    words[figure],
    limit.atLeast === undefined ? `≤ ${limit.atMost?.toFixed(2)}` : `≥ ${limit.atLeast.toFixed(2)}`,
    withInterval(results.ratio(name, figure, against)),
    results.verdict(name, figure, limit, against),
  ]);
  const figures = [...new Set(wanted.map(({ figure }) => figure))];
  for (const figure of figures) rows.push(['A/A', words[figure], '1 ± 0.03', withInterval(results.aa(figure)), '']);
  return table(['ratio', 'of', 'wanted', 'measured', 'verdict'], rows, [1, 4]);
}
