import { describe, expect, it } from 'vitest';
import { Trial, type TrialResult } from '../../../src/limit/trial.js';

/** Windows of 100 ms, with these answers each, against a limit of 100 that answered one call per ms. */
function verdictOf(
  answers: number,
  limit: number,
  windows: number,
  { leastMs = 0, sinceMs = 1_000 } = {},
): TrialResult {
  const trial = new Trial();
  trial.begin(100, 1);
  for (let window = 0; window < windows; window++) trial.add(answers, 100, limit);
  return trial.verdict(leastMs, sinceMs);
}

describe('a trial with a lower limit', () => {
  it('finds that calls queue if as many are answered', () => {
    expect(verdictOf(100, 50, 3)).toBe('queued');
    expect(verdictOf(90, 50, 3)).toBe('queued');
  });

  it('finds a loss if fewer are answered, in proportion', () => {
    expect(verdictOf(50, 50, 3)).toBe('lost');
    expect(verdictOf(25, 25, 3)).toBe('lost');
  });

  it('does not judge few windows or calls, or limits that are nearly equal', () => {
    expect(verdictOf(50, 50, 2)).toBeUndefined();
    expect(verdictOf(80, 80, 50)).toBeUndefined();
    expect(verdictOf(95, 95, 1_000, { sinceMs: 60_000 })).toBeUndefined();
    const trial = new Trial();
    trial.begin(100, 0.01);
    for (let window = 0; window < 10; window++) trial.add(1, 100, 50);
    expect(trial.verdict(0, 1_000)).toBeUndefined();
  });

  it('chooses the nearer result when it has lasted long', () => {
    expect(verdictOf(75, 50, 10)).toBeUndefined();
    expect(verdictOf(75, 50, 10, { sinceMs: 6_000 })).toBe('lost');
    expect(verdictOf(80, 50, 10, { sinceMs: 6_000 })).toBe('queued');
  });

  it('does not judge before it has measured for the requested time', () => {
    expect(verdictOf(25, 50, 49, { leastMs: 5_000 })).toBeUndefined();
    expect(verdictOf(25, 50, 50, { leastMs: 5_000 })).toBe('lost');
  });

  it('continues from what it measured', () => {
    const trial = new Trial();
    trial.begin(100, 1);
    for (let window = 0; window < 3; window++) trial.add(80, 100, 50);
    trial.goOn(50);
    for (let window = 0; window < 5; window++) trial.add(80, 100, 25);
    expect(trial.limit).toBe(50);
    expect(trial.verdict(0, 1_000)).toBe('queued');
  });
});
