import { describe, expect, it } from 'vitest';
import { type Outcome, outcomes } from '../../../src/endpoint/outcome.js';
import { type RetryOptions, RetryPolicy } from '../../../src/retry/retry-policy.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';

const policy = (options: RetryOptions = {}): RetryPolicy => new RetryPolicy(options, new FakeClock());
const ended = (outcome: Outcome, more: { idempotent?: boolean; answered?: boolean; tried?: number } = {}) => ({
  outcome,
  idempotent: false,
  answered: false,
  tried: 1,
  ...more,
});

describe('the retry policy', () => {
  it.each([
    ['notStarted', true, true],
    ['notConnected', true, true],
    ['reset', false, true],
    ['success', false, false],
    ['cancelled', false, false],
    ['timeout', false, false],
    ['status', false, false],
    ['overload', false, false],
    ['protocol', false, false],
  ] as const)('%s: repeated at all %s, repeated if idempotent %s', (name, always, idempotent) => {
    expect(policy().allows(ended(outcomes[name]))).toBe(always);
    expect(policy().allows(ended(outcomes[name], { idempotent: true }))).toBe(idempotent);
  });

  it('never repeats what was answered in part', () => {
    for (const outcome of Object.values(outcomes)) {
      expect(policy().allows(ended(outcome, { idempotent: true, answered: true }))).toBe(false);
    }
  });

  it('makes maxAttempts attempts at most', () => {
    expect(policy().allows(ended(outcomes.notStarted, { tried: 2 }))).toBe(true);
    expect(policy().allows(ended(outcomes.notStarted, { tried: 3 }))).toBe(false);
    expect(policy({ maxAttempts: 1 }).allows(ended(outcomes.notStarted))).toBe(false);
  });

  it('pays for what it allows, and only for that', () => {
    const limited = policy({ budget: { ratio: 0, minPerSecond: 1 } });
    for (let call = 0; call < 100; call++) limited.allows(ended(outcomes.status));
    expect(limited.allows(ended(outcomes.notStarted))).toBe(true);
    expect(limited.allows(ended(outcomes.notStarted))).toBe(false);
  });

  it('gets its share from every call that begins', () => {
    const fed = policy({ budget: { ratio: 0.5, minPerSecond: 0 } });
    expect(fed.allows(ended(outcomes.notStarted))).toBe(false);
    fed.started();
    fed.started();
    expect(fed.allows(ended(outcomes.notStarted))).toBe(true);
    expect(fed.allows(ended(outcomes.notStarted))).toBe(false);
  });

  it('checks its options', () => {
    for (const bad of [{ maxAttempts: 0 }, { maxAttempts: 1.5 }, { attempts: 2 }, { budget: { ratio: 2 } }, 5]) {
      expect(() => policy(bad as never), JSON.stringify(bad)).toThrowError(
        expect.objectContaining({ code: 'EVENKEEL_OPTION' }),
      );
    }
  });
});
