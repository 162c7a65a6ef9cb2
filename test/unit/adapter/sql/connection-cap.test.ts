import { expect, it } from 'vitest';
import { ConnectionCap } from '../../../../src/adapter/sql/connection-cap.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';

it('a server that refuses connections is capped, then tried with one more, then with twice as many, and each step is reported', () => {
  const clock = new FakeClock();
  const told: number[] = [];
  const cap = new ConnectionCap(clock, 10, (capacity) => told.push(capacity));
  cap.refused(1);
  // Their handshakes were under way.
  cap.opened(2);
  cap.opened(3);
  clock.advance(4_999);
  expect([told, cap.isCapped]).toEqual([[1, 2, 3], true]);
  // A refusal does not put off the trial.
  cap.refused(3);
  clock.advance(1);
  expect([told, cap.isCapped]).toEqual([[1, 2, 3, 4], true]);
  cap.refused(3);
  clock.advance(5_000);
  cap.opened(4);
  cap.opened(5);
  expect(told).toEqual([1, 2, 3, 4, 3, 4, 8]);
  for (let open = 6; open <= 10; open++) cap.opened(open);
  expect([told, cap.isCapped]).toEqual([[1, 2, 3, 4, 3, 4, 8, 10], false]);
  cap.refused(0);
  expect(cap.capacity).toBe(1);
  cap.close();
  expect(clock.timers).toBe(0);
});

it('a server whose open connections already reach the limit is capped only for a while', () => {
  const clock = new FakeClock();
  const cap = new ConnectionCap(clock, 10, () => {});
  cap.refused(10);
  expect([cap.capacity, cap.isCapped]).toEqual([10, true]);
  clock.advance(5_000);
  expect([cap.capacity, cap.isCapped]).toEqual([10, false]);
});
