import { describe, expect, it } from 'vitest';
import { type Outcome, outcomes } from '../../../src/endpoint/outcome.js';
import { Warnings } from '../../../src/observe/warnings.js';
import type { RetryOptions } from '../../../src/retry/retry-options.js';
import { RetryRules } from '../../../src/retry/retry-policy.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';

const policy = (options: RetryOptions = {}): RetryRules => new RetryRules(options, new FakeClock());
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
  ] as const)('%s: repeated in any case %s, repeated if idempotent %s', (name, always, idempotent) => {
    expect(policy().allows(ended(outcomes[name]))).toBe(always);
    expect(policy().allows(ended(outcomes[name], { idempotent: true }))).toBe(idempotent);
  });

  it('never repeats a call that was partly answered', () => {
    for (const outcome of Object.values(outcomes)) {
      expect(policy().allows(ended(outcome, { idempotent: true, answered: true }))).toBe(false);
    }
  });

  it('allows at most maxAttempts attempts', () => {
    expect(policy().allows(ended(outcomes.notStarted, { tried: 2 }))).toBe(true);
    expect(policy().allows(ended(outcomes.notStarted, { tried: 3 }))).toBe(false);
    expect(policy({ maxAttempts: 1 }).allows(ended(outcomes.notStarted))).toBe(false);
  });

  it('pays for the retries it allows, and only for those', () => {
    const limited = policy({ budget: { ratio: 0, minPerSecond: 1 } });
    for (let call = 0; call < 100; call++) limited.allows(ended(outcomes.status));
    expect(limited.allows(ended(outcomes.notStarted))).toBe(true);
    expect(limited.allows(ended(outcomes.notStarted))).toBe(false);
  });

  it('gets its share from every call that begins', () => {
    const fed = policy({ budget: { ratio: 0.5, minPerSecond: 0 } });
    expect(fed.allows(ended(outcomes.notStarted))).toBe(false);
    fed.budget.deposit();
    fed.budget.deposit();
    expect(fed.allows(ended(outcomes.notStarted))).toBe(true);
    expect(fed.allows(ended(outcomes.notStarted))).toBe(false);
  });

  it('refunds a retry that could not be made', () => {
    const limited = policy({ budget: { ratio: 0, minPerSecond: 1 } });
    expect(limited.allows(ended(outcomes.notStarted))).toBe(true);
    limited.refund();
    expect(limited.allows(ended(outcomes.notStarted))).toBe(true);
    expect(limited.allows(ended(outcomes.notStarted))).toBe(false);
  });

  it('refunds nothing for a retry that was free', () => {
    const limited = policy({ budget: { ratio: 0, minPerSecond: 1 } });
    expect(limited.allows(ended(outcomes.notStarted))).toBe(true);
    expect(limited.allowsFree(ended(outcomes.notStarted))).toBe(true);
    limited.refund();
    expect(limited.counts.retries['not-started']).toBe(1);
    expect(limited.allows(ended(outcomes.notStarted))).toBe(false);
  });

  it('refunds nothing for a move, which is free', () => {
    const limited = policy({ budget: { ratio: 0, minPerSecond: 1 } });
    expect(limited.allows(ended(outcomes.notStarted))).toBe(true);
    limited.countMove();
    limited.refund();
    expect(limited.counts.retries['not-started']).toBe(1);
    expect(limited.allows(ended(outcomes.notStarted))).toBe(false);
  });

  it('pays for hedges from the same budget, and counts them as attempts', () => {
    const limited = policy({ budget: { ratio: 0, minPerSecond: 1 } });
    expect(limited.allowsHedge(3)).toBe(false);
    expect(limited.allowsHedge(1)).toBe(true);
    expect(limited.allows(ended(outcomes.notStarted))).toBe(false);
    expect(limited.allowsHedge(1)).toBe(false);
  });

  it('checks its options', () => {
    for (const bad of [
      { maxAttempts: 0 },
      { maxAttempts: 1.5 },
      { attempts: 2 },
      { budget: { ratio: 2 } },
      { statuses: 503 },
      { statuses: [200] },
      { statuses: ['503'] },
      { statuses: [undefined] },
      { methods: 'GET' },
      { methods: ['get'] },
      { methods: ['GET POST'] },
      { methods: [''] },
      { when: true },
      5,
    ]) {
      expect(() => policy(bad as never), JSON.stringify(bad)).toThrowError(
        expect.objectContaining({ code: 'EVENKEEL_OPTION' }),
      );
    }
  });
});

describe('statuses', () => {
  const answer = (status: number, more: Parameters<typeof ended>[1] = {}) => ({
    ...ended(status >= 500 ? outcomes.status : outcomes.success, { idempotent: true, ...more }),
    status,
  });

  it('name the responses that are discarded, and no others', () => {
    const asked = policy({ statuses: [503, 404] });
    expect(asked.looksAtAnswers).toBe(true);
    expect([503, 404, 500, 502, 429].map((status) => asked.allows(answer(status)))).toEqual([
      true,
      true,
      false,
      false,
      false,
    ]);
    expect(policy().looksAtAnswers).toBe(false);
    expect(policy({ statuses: [503], maxAttempts: 1 }).looksAtAnswers).toBe(false);
  });

  it('do not apply to a request that may not be repeated, nor to a response that was passed on', () => {
    expect(policy({ statuses: [503] }).allows(answer(503, { idempotent: false }))).toBe(false);
    expect(policy({ statuses: [503] }).allows(answer(503, { answered: true }))).toBe(false);
  });

  it('are limited by attempts and budget', () => {
    expect(policy({ statuses: [503] }).allows(answer(503, { tried: 3 }))).toBe(false);
    expect(policy({ statuses: [503], budget: { ratio: 0, minPerSecond: 0 } }).allows(answer(503))).toBe(false);
  });
});

describe('methods', () => {
  it('are the idempotent ones unless configured', () => {
    expect(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'].every((m) => policy().methods.has(m))).toBe(true);
    expect(['POST', 'PATCH', 'CONNECT', 'get', 'QUERY'].some((m) => policy().methods.has(m))).toBe(false);
    const named = policy({ methods: ['GET', 'POST'] });
    expect(['GET', 'POST', 'PUT'].map((m) => named.methods.has(m))).toEqual([true, true, false]);
  });
});

describe('when', () => {
  it('is given the facts', () => {
    const seen: unknown[] = [];
    const asked = policy({
      statuses: [503],
      when: ({ header, ...facts }) => {
        seen.push({ ...facts, after: header('Retry-After'), missing: header('x') });
        return false;
      },
    });
    const header = (name: string): unknown => ({ 'retry-after': '7' })[name];
    asked.allows({ ...ended(outcomes.overload, { idempotent: true }), method: 'GET', status: 503, header });
    const error = Object.assign(new Error('gone'), { code: 'ECONNRESET' });
    asked.allows({ ...ended(outcomes.reset, { idempotent: true, tried: 2 }), error });
    expect(seen).toEqual([
      {
        outcome: outcomes.overload,
        attempt: 1,
        idempotent: true,
        method: 'GET',
        status: 503,
        error: undefined,
        code: undefined,
        usual: true,
        after: '7',
        missing: undefined,
      },
      {
        outcome: outcomes.reset,
        attempt: 2,
        idempotent: true,
        method: undefined,
        status: undefined,
        error,
        code: 'ECONNRESET',
        usual: true,
        after: undefined,
        missing: undefined,
      },
    ]);
  });

  it('decides instead of the rules, in both directions', () => {
    const never = policy({ when: () => false });
    expect(never.allows(ended(outcomes.notStarted))).toBe(false);
    const always = policy({ when: () => true });
    expect(always.allows(ended(outcomes.timeout, { idempotent: true }))).toBe(true);
    expect(always.allows({ ...ended(outcomes.success, { idempotent: true }), status: 404 })).toBe(true);
  });

  it('cannot repeat a call that may be done only once', () => {
    const asked: unknown[] = [];
    const always = policy({ when: (attempt) => asked.push(attempt) > 0 });
    for (const outcome of [outcomes.reset, outcomes.timeout, outcomes.status, outcomes.overload, outcomes.cancelled]) {
      expect(always.allows(ended(outcome)), outcome.cause).toBe(false);
      expect(always.allows(ended(outcome, { idempotent: true, answered: true })), outcome.cause).toBe(false);
    }
    expect(always.allows(ended(outcomes.cancelled, { idempotent: true }))).toBe(false);
    expect(asked).toEqual([]);
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('mine');
      },
      'mine',
    ],
    ['returns a promise', async () => true, 'retry.when() must be true or false, got a promise'],
    ['forgets to return', () => {}, 'retry.when() must be true or false, got undefined'],
    ['returns a word', () => 'yes', 'retry.when() must be true or false, got "yes"'],
  ])('that %s lets the rules decide, and is reported to the observer', (_what, when, message) => {
    const clock = new FakeClock();
    const warned: unknown[] = [];
    const warnings = new Warnings({ warned: ({ error }) => warned.push(error) }, clock);
    const mistaken = new RetryRules({ when: when as never }, clock, warnings);
    expect(mistaken.allows(ended(outcomes.notStarted))).toBe(true);
    expect(mistaken.allows(ended(outcomes.timeout, { idempotent: true }))).toBe(false);
    expect(warned).toEqual([expect.objectContaining({ message })]);
  });
});
