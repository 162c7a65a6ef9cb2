import { expect, it } from 'vitest';
import { statusOf, whyFewer } from '../../../src/balancer/endpoint-status.js';

const ready = {
  state: 'ready',
  weight: 1,
  suspect: false,
  ejectedBecause: undefined,
  lastError: undefined,
  inFlight: 0,
  timesCheapest: 1,
  share: 1,
} as const;

it('gives no reason for an endpoint that gets its share', () => {
  expect([statusOf(ready, false), whyFewer(ready, false)]).toEqual(['ready', undefined]);
  expect(whyFewer({ ...ready, timesCheapest: 3 }, false)).toBeUndefined();
  expect(whyFewer({ ...ready, lastError: 'reset, an hour ago' }, false)).toBeUndefined();
});

it('says in words why an endpoint is avoided', () => {
  expect(whyFewer({ ...ready, timesCheapest: 33.77 }, false)).toContain('34 times as much as at the cheapest');
  expect(whyFewer({ ...ready, timesCheapest: 4.25 }, false)).toContain('4.3 times');
  expect(whyFewer({ ...ready, share: 0.6 }, false)).toBeUndefined();
  expect(whyFewer({ ...ready, share: 0.07 }, false)).toBe(
    'it is slower than the others, and gets 7 % of its share of the calls',
  );
});

it('says that an ejected endpoint is in use during panic', () => {
  const ejected = { ...ready, suspect: true, weight: 0, ejectedBecause: '5 failures in a row' };
  expect([statusOf(ejected, false), whyFewer(ejected, false)]).toEqual(['ejected', '5 failures in a row']);
  const lifted = { ...ejected, suspect: false, weight: 1 };
  expect(statusOf(lifted, true)).toBe('ready');
  expect(whyFewer(lifted, true)).toBe('would be ejected (5 failures in a row), but so would most others');
});

it('says why an endpoint without connection, on standby or leaving gets no calls', () => {
  expect(statusOf({ ...ready, weight: 0 }, false)).toBe('standby');
  expect(whyFewer({ ...ready, weight: 0 }, false)).toContain('a stage gives it no calls');
  expect(whyFewer({ ...ready, state: 'backoff', lastError: 'refused' }, false)).toBe('refused');
  expect(whyFewer({ ...ready, state: 'draining', inFlight: 3 }, false)).toBe('it leaves; 3 of its calls still run');
});
