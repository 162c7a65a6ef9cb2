import { expect, it } from 'vitest';
import { outcomeAtDeadline } from '../../../src/call/call-deadline.js';
import { outcomes } from '../../../src/endpoint/outcome.js';

it('a deadline counts against the endpoint that had the call for half of the time without an answer', () => {
  expect(outcomeAtDeadline(500, 1_000, false)).toBe(outcomes.timeout);
  expect(outcomeAtDeadline(499, 1_000, false)).toBe(outcomes.cancelled);
  expect(outcomeAtDeadline(1_000, 1_000, true)).toBe(outcomes.cancelled);
});
