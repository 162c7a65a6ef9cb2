import { expect, it } from 'vitest';
import { Invalidation } from '../../../src/stage/invalidation.js';
import type { StageContext } from '../../../src/stage/stage.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';

it('sets no timer after close, although verdicts still come from calls that end then', () => {
  const clock = new FakeClock();
  const invalidation = new Invalidation({ clock, invalidate: () => {} } as Partial<StageContext> as StageContext);
  for (let verdicts = 0; verdicts < 10; verdicts++) {
    invalidation.request();
    invalidation.ran();
  }
  invalidation.close();
  invalidation.request();
  expect(clock.timers).toBe(0);
});
