import { describe, expect, it } from 'vitest';
import { adaptive } from '../../src/limit/adaptive.js';
import type { Rng } from '../../src/runtime/rng.js';
import { PROOF } from './lib/proof.js';
import { around, exponential, type ServiceTime } from './lib/server.js';
import { strategies } from './lib/strategies.js';
import { World } from './lib/world.js';

/** What calls take at a time on servers that never queue. */
type Work = (rng: Rng, nowMs: number) => number;

/** When something changes. What is shed in the ten seconds after it does not count. */
const CHANGE_MS = 10_000;
const FROM_MS = 20_000;

const mix =
  (share: number, others: ServiceTime, ofShare: ServiceTime): ServiceTime =>
  (rng) =>
    rng.next() < share ? ofShare(rng) : others(rng);
const later =
  (before: ServiceTime, after: ServiceTime): Work =>
  (rng, nowMs) =>
    (nowMs < CHANGE_MS ? before : after)(rng);
const alternating =
  (ms: number, first: ServiceTime, second: ServiceTime): Work =>
  (rng, nowMs) =>
    (Math.floor(nowMs / ms) % 2 === 0 ? first : second)(rng);

const quick = exponential(2);
const slow = exponential(200);
const endpoint = around(200, 100);

/** Each with how long it takes, in seconds, and whether it is in the short version. */
const works: readonly [name: string, work: Work, seconds: number, isShort: boolean][] = [
  ['2.5 times as long', later(exponential(20), exponential(50)), 40, false],
  ['5 times as long', later(exponential(20), exponential(100)), 40, true],
  ['10 times as long', later(exponential(20), exponential(200)), 40, true],
  ['exactly 2.5 times as long', later(around(20, 0), around(50, 0)), 40, false],
  ['exactly 10 times as long', later(around(20, 0), around(200, 0)), 40, false],
  ['30 % of the calls an endpoint of 100 to 300 ms', mix(0.3, around(2, 0), endpoint), 40, true],
  ['60 % of them, from some time on', later(around(2, 0), mix(0.6, around(2, 0), endpoint)), 40, false],
  ['half of them quick', mix(0.5, quick, slow), 40, false],
  ['90 % quick, then 10 %', later(mix(0.1, quick, slow), mix(0.9, quick, slow)), 40, true],
  ['90 % quick and 10 % by turns', alternating(5_000, mix(0.1, quick, slow), mix(0.9, quick, slow)), 60, true],
  ['all quick and all slow by turns', alternating(3_000, exponential(20), exponential(200)), 60, false],
  ['1 % batch calls of 10 s', mix(0.01, exponential(10), around(10_000, 0)), 60, true],
  ['20 % long polls of 30 s', mix(0.2, exponential(10), around(30_000, 0)), 75, true],
];

const rates: readonly [perSecond: number, seeds: readonly number[]][] = PROOF
  ? [
      [50, [1, 2, 3, 4, 5]],
      [300, [1, 2, 3, 4, 5]],
      [1_000, [1]],
      [3_000, [1]],
    ]
  : [[200, [1]]];

async function shedOf(work: Work, callsPerSecond: number, seconds: number, seed: number): Promise<number> {
  const world: World = new World({
    seed,
    strategy: strategies.standard,
    servers: 4,
    serviceTime: (rng) => work(rng, world.clock.now()),
    callsPerSecond,
    // No caller gives up: all that fails is shed.
    deadlineMs: 60_000,
    limit: adaptive(),
  });
  await world.start(FROM_MS);
  const tally = await world.run(seconds * 1_000 - FROM_MS);
  const shed = tally.failures.length;
  const begun = [...tally.perServer.values()].reduce((sum, calls) => sum + calls, 0);
  await world.close();
  return shed / (shed + begun);
}

// What is slow for another reason than too many calls is no faster with fewer.
describe.each(rates)('servers that never queue, at %i calls/s', (perSecond, seeds) => {
  it.each(works.filter(([, , , isShort]) => PROOF || isShort))(
    '%s: hardly any call is shed',
    async (_, work, seconds) => {
      for (const seed of seeds) {
        expect(await shedOf(work, perSecond, seconds, seed), `seed ${seed}`).toBeLessThan(0.02);
      }
    },
  );
});
