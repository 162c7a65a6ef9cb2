import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { PollingList } from '../../bench/lib/polling-list.mjs';

/** @type {{ address: string, port: number }[]} */
let ready;
/** @type {string[]} */
let removed;
/** @type {PollingList<{ origin: string }>} */
let list;

beforeEach(() => {
  vi.useFakeTimers();
  ready = [
    { address: '10.0.0.1', port: 80 },
    { address: '10.0.0.2', port: 80 },
  ];
  removed = [];
  const pods = /** @type {any} */ ({
    get ready() {
      return ready;
    },
  });
  list = new PollingList(pods, { add: (origin) => ({ origin }), remove: ({ origin }) => void removed.push(origin) });
});
afterEach(() => {
  list.close();
  vi.useRealTimers();
});

const origins = () => list.members.map(({ origin }) => origin);

test('the list holds one member per ready pod from the start', () => {
  expect(origins()).toEqual(['http://10.0.0.1:80', 'http://10.0.0.2:80']);
});

test('a change shows after a second, and members for pods that stay are kept', () => {
  const [, stays] = list.members;
  ready = [
    { address: '10.0.0.2', port: 80 },
    { address: '10.0.0.3', port: 80 },
  ];
  vi.advanceTimersByTime(999);
  expect(origins()).toContain('http://10.0.0.1:80');
  vi.advanceTimersByTime(1);
  expect(origins()).toEqual(['http://10.0.0.2:80', 'http://10.0.0.3:80']);
  expect(list.members[0]).toBe(stays);
  expect(removed).toEqual(['http://10.0.0.1:80']);
});

test('a closed list removes every member, and polls no more', () => {
  list.close();
  expect(removed).toHaveLength(2);
  ready = [{ address: '10.0.0.9', port: 80 }];
  vi.advanceTimersByTime(10_000);
  expect(vi.getTimerCount()).toBe(0);
  expect(origins()).not.toContain('http://10.0.0.9:80');
});
