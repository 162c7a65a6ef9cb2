import { expect, it } from 'vitest';
import { roomOf } from '../../../src/recorder/live-subchannels.js';

const ANY = 2 ** 30;
const watched = { watchCapacity: () => {} };
const broken = {
  get capacity(): number {
    throw new Error('broken');
  },
};

it.each([
  ['without a connection', undefined, 0, 0],
  ['whose connection is asked each time', { capacity: 5 }, 5, -6],
  ['on probation, whose connection is asked each time', { capacity: 5 }, 1, -2],
  [
    'whose connection is asked each time and sets no limit',
    { capacity: Number.POSITIVE_INFINITY },
    Number.POSITIVE_INFINITY,
    ANY,
  ],
  ['on probation, whose connection sets no limit', { capacity: Number.POSITIVE_INFINITY }, 1, 1],
  ['whose connection reports changes', { ...watched, capacity: 5 }, 5, 5],
  [
    'whose connection reports changes, and sets no limit',
    { ...watched, capacity: Number.POSITIVE_INFINITY },
    Number.POSITIVE_INFINITY,
    ANY,
  ],
  ['that takes none now', { capacity: 0 }, 0, -1],
])('the room of a subchannel %s is %o, %d: %d', (_, connection, capacity, room) => {
  expect(roomOf({ recordedAs: 1, state: 'ready', connection: connection as never, capacity })).toBe(room);
});

it('a subchannel whose connection throws has no room', () => {
  expect(roomOf({ recordedAs: 1, state: 'ready', connection: broken as never, capacity: 3 })).toBe(-1);
});
