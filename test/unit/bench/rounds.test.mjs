import { expect, test } from 'vitest';
import { measure } from '../../bench/lib/rounds.mjs';
import { table, withInterval } from '../../bench/lib/table.mjs';

/** A subject that always measures the same, and writes down that it ran. */
function subject(/** @type {string} */ name, /** @type {number} */ perSecond, /** @type {string[]} */ log) {
  return {
    name,
    run: async () => {
      log.push(name);
      return { perSecond, cpuUs: 1e6 / perSecond };
    },
  };
}

test('every round runs each subject once and the baseline twice, and the first round is discarded', async () => {
  /** @type {string[]} */
  const log = [];
  const results = await measure({
    baseline: subject('base', 1_000, log),
    subjects: [subject('fast', 2_000, log), subject('slow', 500, log)],
    rounds: 5,
  });
  expect(results.rounds).toBe(5);
  expect(log).toHaveLength(6 * 4);
  expect(log.filter((name) => name === 'base')).toHaveLength(12);
});

test('the order changes from round to round', async () => {
  /** @type {string[]} */
  const log = [];
  const subjects = ['a', 'b', 'c'].map((name) => subject(name, 1, log));
  await measure({ baseline: subject('base', 1, log), subjects, rounds: 20 });
  const orders = new Set(Array.from({ length: 21 }, (_, round) => log.slice(round * 5, round * 5 + 5).join()));
  expect(orders.size).toBeGreaterThan(5);
});

test('a round of several visits is one sample: all its requests over all its time, and the mean of its latencies', async () => {
  const one = { perSecond: 100, cpuUs: 10, p99: 2 };
  const other = { perSecond: 300, cpuUs: 20, p99: 4 };
  let runs = 0;
  const base = { name: 'base', run: async () => one };
  const ours = { name: 'ours', run: async () => (runs++ % 2 === 0 ? one : other) };
  const results = await measure({ baseline: base, subjects: [ours], rounds: 3, visits: 2, warmUp: 2 });
  expect(runs).toBe(2 + 3 * 2);
  expect(results.rounds).toBe(3);
  expect(results.median('ours', 'perSecond')).toBeCloseTo(150);
  expect(results.median('ours', 'cpuUs')).toBeCloseTo(15);
  expect(results.median('ours', 'p99')).toBeCloseTo(3);
});

test('a round has fewer visits, but at least one, if the rounds would otherwise exceed the time limit', async () => {
  let nowMs = 0;
  const base = {
    name: 'base',
    run: async () => {
      nowMs += 1_000;
      return { perSecond: 1, cpuUs: 1 };
    },
  };
  const visitsIn = async (/** @type {number} */ minutes) =>
    (await measure({ baseline: base, subjects: [], rounds: 10, visits: 6, minutes, now: () => nowMs })).visits;
  // Ten rounds of a visit take 20 seconds: the baseline has two turns.
  expect(await visitsIn(10)).toBe(6);
  expect(await visitsIn(1)).toBe(3);
  expect(await visitsIn(0.1)).toBe(1);
});

test('ratios are computed within a round, so a drift of the machine cancels out', async () => {
  let speed = 1;
  const drifting = (/** @type {string} */ name, /** @type {number} */ factor) => ({
    name,
    run: async () => ({ perSecond: 100 * speed * factor, cpuUs: 1 / speed / factor }),
  });
  const results = await measure({
    baseline: drifting('base', 1),
    subjects: [drifting('ours', 1.25)],
    rounds: 40,
    progress: (round) => {
      speed = 1 + round;
    },
  });
  const ratio = results.ratio('ours', 'perSecond');
  expect(ratio.median).toBeCloseTo(1.25);
  expect(ratio.low).toBeCloseTo(1.25);
  expect(results.aa('perSecond').median).toBeCloseTo(1);
  expect(results.verdict('ours', 'perSecond', { atLeast: 0.97 })).toBe('holds');
  expect(results.verdict('ours', 'cpuUs', { atMost: 1.05 })).toBe('holds');
});

test('the second run of the baseline shows as A/A only', async () => {
  const again = async () => ({ perSecond: 2, cpuUs: 1 });
  const results = await measure({ baseline: { ...subject('base', 1, []), again }, subjects: [], rounds: 4 });
  expect(results.aa('perSecond').median).toBe(2);
  expect(results.median('base', 'perSecond')).toBe(1);
});

test('there is no verdict from fewer than 40 rounds', async () => {
  const results = await measure({ baseline: subject('base', 1, []), subjects: [subject('x', 1, [])], rounds: 39 });
  expect(results.verdict('x', 'perSecond', { atLeast: 0.97 })).toBe('too few rounds');
});

test('a table is Markdown, its columns as wide as their widest cell', () => {
  expect(
    table(
      ['what', 'n'],
      [
        ['×', '1'],
        ['longer', '1,000'],
      ],
    ),
  ).toBe(['| what   |     n |', '|--------|------:|', '| ×      |     1 |', '| longer | 1,000 |'].join('\n'));
  expect(withInterval({ median: 1, low: 0.981, high: 1.02 })).toBe('1.00 [0.98, 1.02]');
});
