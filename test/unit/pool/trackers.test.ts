import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { Trackers } from '../../../src/pool/trackers.js';

/** What a tracker was told of unanswered calls, one number per call that ended. */
function listening(): { trackers: Trackers; unanswered: number[] } {
  const unanswered: number[] = [];
  const tracker = { completed: (_outcome: unknown, _latencyMs: number, count: number) => unanswered.push(count) };
  return { trackers: new Trackers([tracker]), unanswered };
}

describe('trackers', () => {
  it('learn at the first timeout how many calls a silent endpoint left unanswered', () => {
    const { trackers, unanswered } = listening();
    trackers.completed(outcomes.success, 20, 20, 1, 0);
    trackers.completed(outcomes.timeout, 1_000, 1_010, 37, 0);
    expect(unanswered).toEqual([1, 37]);
  });

  it('learn of one call when the endpoint has answered others meanwhile', () => {
    const { trackers, unanswered } = listening();
    trackers.completed(outcomes.timeout, 1_000, 730, 27, 0);
    expect(unanswered).toEqual([1]);
  });

  it('still count an endpoint as silent that answered only at the beginning of the call', () => {
    const { trackers, unanswered } = listening();
    trackers.completed(outcomes.timeout, 1_000, 830, 37, 0);
    expect(unanswered).toEqual([37]);
  });

  it('do not count a short pause as silence, however short the deadline of a call was', () => {
    const { trackers, unanswered } = listening();
    trackers.completed(outcomes.timeout, 20, 30, 37, 0);
    expect(unanswered).toEqual([1]);
  });

  it('learn how many successes they were not notified of', () => {
    const counts: number[] = [];
    const tracker = { completed: (_o: unknown, _ms: number, _count: number, unheard: number) => counts.push(unheard) };
    new Trackers([tracker]).completed(outcomes.status, 20, 20, 1, 7);
    expect(counts).toEqual([7]);
  });

  it('ignore successes only when all of them do', () => {
    const deaf = { completed: () => {}, ignoresSuccess: true };
    const hearing = { completed: () => {} };
    expect(new Trackers([deaf, { connected: () => {} }]).ignoreSuccess).toBe(true);
    expect(new Trackers([deaf, hearing]).ignoreSuccess).toBe(false);
  });
});
