import { expect, it } from 'vitest';
import { Verdicts } from '../../../src/balancer/verdicts.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';

it('sets no timer after close, although verdicts still come from calls that end then', () => {
  const clock = new FakeClock();
  const invalidation = new Verdicts(clock, () => {});
  for (let verdicts = 0; verdicts < 10; verdicts++) {
    invalidation.request();
    invalidation.ran();
  }
  invalidation.close();
  invalidation.request();
  expect(clock.timers).toBe(0);
});
