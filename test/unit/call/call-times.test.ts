import { expect, it } from 'vitest';
import { LatencyQuantile } from '../../../src/call/latency-quantile.js';
import { CallTimes } from '../../../src/call/lease.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';

const owner = { clock: new FakeClock() } as never;
/** What it says of an endpoint that its caller gave up after so long. */
const givenUpAfter = (times: CallTimes<unknown>, waitedMs: number, answered = false): unknown =>
  times.outcomeFor(outcomes.cancelled, 10_000, 10_000 + waitedMs, answered);

it('counts an abort after more than stalledAfterMs as a timeout, allowing for the rounding of timers', () => {
  const times = new CallTimes(owner, 1_000);
  expect(givenUpAfter(times, 900)).toBe(outcomes.cancelled);
  expect(givenUpAfter(times, 990)).toBe(outcomes.timeout);
  expect(givenUpAfter(times, 990, true)).toBe(outcomes.cancelled);
});

it('requires three times the usual latency, where calls take long', () => {
  const times = new CallTimes(owner, 1_000);
  for (let call = 0; call < 100; call++) times.took(2_000);
  expect(givenUpAfter(times, 5_500)).toBe(outcomes.cancelled);
  // A quantile of 2,000 ms is 2,048 ms, the end of its bucket.
  expect(givenUpAfter(times, 3 * 2_000 * 1.2)).toBe(outcomes.timeout);
});

it('counts fast calls too: after many of them a few slow ones are not usual, until they are', () => {
  const times = new CallTimes(owner, 1_000);
  for (let call = 0; call < 100_000; call++) times.took(5);
  for (let call = 0; call < 20; call++) times.took(2_000);
  expect(givenUpAfter(times, 5_500)).toBe(outcomes.timeout);
  for (let call = 0; call < 400; call++) times.took(2_000);
  expect(givenUpAfter(times, 5_500)).toBe(outcomes.cancelled);
});

it('leaves every other outcome unchanged', () => {
  const times = new CallTimes(owner, 1_000);
  for (const outcome of [outcomes.timeout, outcomes.reset, outcomes.status, outcomes.notConnected]) {
    expect(times.outcomeFor(outcome, 0, 60_000, false)).toBe(outcome);
  }
});

it('judges as if each fast call were counted by its duration', () => {
  for (const stalledAfterMs of [1, 10, 1_000, 30_000]) {
    const rng = seededRng(stalledAfterMs);
    const times = new CallTimes(owner, stalledAfterMs);
    const exact = new LatencyQuantile();
    for (let call = 0; call < 10_000; call++) {
      // Around the durations that begin to matter.
      const tookMs = (stalledAfterMs / 4) * (1 + rng.next() * (call % 100 === 0 ? 4 : 0.6));
      times.took(tookMs);
      exact.add(tookMs);
      if (call % 100 > 0) continue;
      const limitMs = Math.max(0.95 * stalledAfterMs, 3 * exact.quantile(0.99));
      expect(givenUpAfter(times, limitMs + 0.01)).toBe(outcomes.timeout);
      expect(givenUpAfter(times, limitMs - 0.01)).toBe(outcomes.cancelled);
    }
  }
});
