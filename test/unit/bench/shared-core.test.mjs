import { seededRng } from 'evenkeel/testing';
import { expect, it } from 'vitest';
import { SharedCore } from '../../bench/lib/shared-core.mjs';

it('a shared core is divided evenly among its jobs', () => {
  const core = new SharedCore();
  /** @type {Record<string, number>} */
  const done = {};
  const take = (/** @type {string} */ name, /** @type {number} */ nowMs, /** @type {number} */ workMs) =>
    core.take(nowMs, workMs, (atMs) => {
      done[name] = atMs;
    });
  take('long', 0, 30);
  expect(core.nextMs).toBe(30);
  // From here each gets half: 20 ms of the first are left.
  take('short', 10, 5);
  expect(core.nextMs).toBe(20);
  core.advance(19);
  expect(done).toEqual({});
  expect(core.running).toBe(2);
  // Looked at late, everything has still ended at its time.
  core.advance(1_000);
  expect(done).toEqual({ short: 20, long: 35 });
  expect(core.nextMs).toBeUndefined();
  take('later', 2_000, 7);
  core.advance(2_007);
  expect(done.later).toBe(2_007);
});

it('a shared core answers as queueing theory says: mean work / (1 − ρ), whatever the distribution', () => {
  const rng = seededRng(1);
  const core = new SharedCore();
  const [work, load, calls] = [20, 0.667, 100_000];
  let nowMs = 0;
  let sumMs = 0;
  for (let call = 0; call < calls; call++) {
    nowMs -= (Math.log(1 - rng.next()) * work) / load;
    const beganMs = nowMs;
    core.take(nowMs, rng.next() < 0.1 ? 155 : 5, (atMs) => {
      sumMs += atMs - beganMs;
    });
  }
  core.advance(Number.POSITIVE_INFINITY);
  const mean = sumMs / calls / (work / (1 - load));
  expect(mean).toBeGreaterThan(0.93);
  expect(mean).toBeLessThan(1.07);
});
