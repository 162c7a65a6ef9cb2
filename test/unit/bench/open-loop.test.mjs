import { expect, test } from 'vitest';
import { openLoop } from '../../bench/lib/open-loop.mjs';

/** Settles when `called` says so: nothing here waits for a time. */
function until() {
  /** @type {() => void} */
  let settle = () => {};
  const promise = new Promise((resolve) => {
    settle = () => resolve(undefined);
  });
  return { promise, settle };
}

test('calls are sent while responses are outstanding, and those that never come count as failed', async () => {
  const enough = until();
  let calls = 0;
  const call = () => {
    if (++calls === 50) enough.settle();
    return new Promise(() => {});
  };
  const tally = await openLoop(call, { perSecond: 10_000, during: enough.promise, patienceMs: 1 });
  expect(tally.sent).toBeGreaterThanOrEqual(50);
  expect(tally.failed).toBe(tally.sent);
  expect(tally.p99).toBeNaN();
});

test('failures are counted, and described by their most frequent message', async () => {
  const enough = until();
  let calls = 0;
  const call = async () => {
    const number = ++calls;
    if (number === 40) enough.settle();
    if (number % 4 === 0) throw Object.assign(new Error('gone'), { code: 'ECONNRESET' });
    if (number % 10 === 1) throw new Error('fetch failed', { cause: { code: 'ECONNREFUSED' } });
  };
  const tally = await openLoop(call, { perSecond: 10_000, during: enough.promise });
  expect(tally.sent).toBe(calls);
  expect(tally.failed).toBeGreaterThanOrEqual(14);
  expect(tally.failed).toBeLessThan(tally.sent);
  expect(tally.reason).toBe('ECONNRESET');
  expect(tally.p50).toBeLessThanOrEqual(tally.p999);
});

test('nothing is sent after the end', async () => {
  let calls = 0;
  const call = async () => {
    calls += 1;
  };
  const { sent, lateMs } = await openLoop(call, { perSecond: 10_000, during: Promise.resolve() });
  expect(sent).toBe(calls);
  expect(lateMs).toBeGreaterThanOrEqual(0);
  await new Promise((resolve) => setImmediate(resolve));
  expect(calls).toBe(sent);
});

test('a client that cannot send in time reports how late it was', async () => {
  let turns = 0;
  const enough = until();
  const call = async () => {
    // As a machine that has no time for us.
    for (const end = performance.now() + 30; performance.now() < end; );
    if (++turns === 5) enough.settle();
  };
  const { lateMs } = await openLoop(call, { perSecond: 1_000, during: enough.promise });
  expect(lateMs).toBeGreaterThanOrEqual(20);
});
