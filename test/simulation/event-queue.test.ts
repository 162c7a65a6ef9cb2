import { expect, it } from 'vitest';
import { seededRng } from '../../src/testing/seeded-rng.js';
import { type Event, EventQueue } from './lib/event-queue.js';

it('events come in order of time, simultaneous ones in the order they were added, and cancelled ones never', () => {
  const rng = seededRng(7);
  const queue = new EventQueue();
  const expected: { atMs: number; order: number; event: Event }[] = [];
  const seen: Event[] = [];
  let order = 0;
  let nowMs = 0;
  for (let round = 0; round < 200; round++) {
    for (let added = 0; added < 200; added++) {
      const event: Event = { atMs: nowMs + Math.floor(rng.next() * 50), fn: () => {}, world: true };
      queue.add(event);
      expected.push({ atMs: event.atMs, order: order++, event });
    }
    // Most are cancelled, as timers are: also some twice.
    for (const { event } of expected) if (rng.next() < 0.3) queue.cancel(event);
    for (let taken = 0; taken < 20; taken++) {
      const first = queue.first;
      if (first === undefined) break;
      queue.shift();
      nowMs = first.atMs;
      if (first.fn !== undefined) seen.push(first);
      first.fn = undefined;
      queue.cancel(first);
    }
  }
  for (let first = queue.first; first !== undefined; first = queue.first) {
    queue.shift();
    if (first.fn !== undefined) seen.push(first);
  }
  const kept = new Set(seen);
  const inOrder = expected.filter(({ event }) => kept.has(event)).sort((a, b) => a.atMs - b.atMs || a.order - b.order);
  expect(seen).toEqual(inOrder.map(({ event }) => event));
  expect(seen.length).toBeGreaterThan(1_000);
});
