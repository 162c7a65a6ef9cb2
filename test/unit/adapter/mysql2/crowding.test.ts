import { expect, it } from 'vitest';
import { Crowding } from '../../../../src/adapter/mysql2/crowding.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';

it('a crowded server is held to what it gave for a while, and both are told', () => {
  const clock = new FakeClock();
  const crowding = new Crowding(clock, 10);
  const told: number[] = [];
  crowding.watch(() => told.push(crowding.capacity));
  crowding.holdTo(3);
  clock.advance(4_999);
  expect([told, crowding.isCrowded]).toEqual([[3], true]);
  clock.advance(1);
  expect([told, crowding.isCrowded]).toEqual([[3, 10], false]);
  crowding.holdTo(0);
  expect(crowding.capacity).toBe(1);
  crowding.close();
  expect(clock.timers).toBe(0);
});
