import { expect, it } from 'vitest';
import { ConnectionCap } from '../../../../src/adapter/mysql2/server/connection-cap.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';

it('a crowded server is held to what it gives, then tried with one more, then with twice as many, and all are told', () => {
  const clock = new FakeClock();
  const crowding = new ConnectionCap(clock, 10);
  const told: number[] = [];
  crowding.watch(() => told.push(crowding.capacity));
  crowding.refused(1);
  // Their handshakes were under way.
  crowding.opened(2);
  crowding.opened(3);
  clock.advance(4_999);
  expect([told, crowding.isCrowded]).toEqual([[1, 2, 3], true]);
  // A refusal does not put off the trial.
  crowding.refused(3);
  clock.advance(1);
  expect([told, crowding.isCrowded]).toEqual([[1, 2, 3, 4], true]);
  crowding.refused(3);
  clock.advance(5_000);
  crowding.opened(4);
  crowding.opened(5);
  expect(told).toEqual([1, 2, 3, 4, 3, 4, 8]);
  for (let open = 6; open <= 10; open++) crowding.opened(open);
  expect([told, crowding.isCrowded]).toEqual([[1, 2, 3, 4, 3, 4, 8, 10], false]);
  crowding.refused(0);
  expect(crowding.capacity).toBe(1);
  crowding.close();
  expect(clock.timers).toBe(0);
});

it('a server of whose connections as many are open as may be is crowded only for a while', () => {
  const clock = new FakeClock();
  const crowding = new ConnectionCap(clock, 10);
  crowding.refused(10);
  expect([crowding.capacity, crowding.isCrowded]).toEqual([10, true]);
  clock.advance(5_000);
  expect([crowding.capacity, crowding.isCrowded]).toEqual([10, false]);
});
