/**
 * How long the event loop is blocked while `hash` fills a table, which it does when endpoints or weights change.
 *
 *   node --expose-gc test/bench/hash-tables.bench.mjs [--quick]
 */
import { seededRng } from 'evenkeel/testing';
import { importSources } from '../../scripts/build.mjs';
import { MIN_ROUNDS } from './lib/rounds.mjs';
import { bootstrapMedian, judgeLimit, shuffled } from './lib/statistics.mjs';
import { grouped, table, withInterval } from './lib/table.mjs';

const [{ maglevTable }] = await importSources('src/runtime/maglev.ts');
const quick = process.argv.includes('--quick');
const ROUNDS = quick ? 10 : MIN_ROUNDS;
const LIMIT_MS = 5;
const rng = seededRng(1);

/** @type {Record<string, (index: number) => number>} */
const weightings = {
  equal: () => 1,
  '1 in 10 newcomers of a tenth': (index) => (index % 10 === 0 ? 0.1 : 1),
  'one of 65,535, others of 1': (index) => (index === 0 ? 65_535 : 1),
};
const cases = [100, 1_000, 10_000].flatMap((count) =>
  Object.entries(weightings).map(([weighting, weightOf]) => {
    const names = Array.from({ length: count }, (_, index) => `10.0.${index >> 8}.${index & 255}:8080`);
    const weights = names.map((_, index) => weightOf(index));
    return { count, weighting, fill: () => maglevTable(names, weights, 65_537).length };
  }),
);

/** @type {Map<(typeof cases)[number], number[]>} */
const samples = new Map(cases.map((each) => [each, []]));
let places = 0;
for (let round = 0; round < ROUNDS + 3; round++) {
  for (const each of shuffled(cases, () => rng.next())) {
    const begun = performance.now();
    places += each.fill();
    const tookMs = performance.now() - begun;
    if (round >= 3) samples.get(each)?.push(tookMs);
  }
}
if (places === 0) throw new Error('nothing was filled');

const rows = [...samples].map(([{ count, weighting }, values]) => {
  const interval = bootstrapMedian(values, () => rng.next());
  return [
    grouped(count),
    weighting,
    `≤ ${LIMIT_MS} ms`,
    `${withInterval(interval)} ms`,
    judgeLimit(interval, LIMIT_MS),
  ];
});
console.log(`## The table of \`hash\`

How long a new table blocks the event loop; wall-clock time, ${ROUNDS} rounds in random order. Rendezvous, to 16 endpoints, has none.

${table(['endpoints', 'weights', 'wanted', 'median [95 %]', 'verdict'], rows, [1, 4])}
`);
