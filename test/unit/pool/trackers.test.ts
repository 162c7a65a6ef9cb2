import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { Warnings } from '../../../src/observe/warnings.js';
import { Trackers } from '../../../src/pool/trackers.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';

/** What a tracker was told of unanswered calls, one number per call that ended. */
function listening(): { trackers: Trackers; unanswered: number[] } {
  const unanswered: number[] = [];
  const tracker = { completed: (_outcome: unknown, _latencyMs: number, count: number) => unanswered.push(count) };
  return { trackers: new Trackers([tracker], new Warnings({}, new FakeClock())), unanswered };
}

describe('trackers', () => {
  it('hear how many calls a silent endpoint left unanswered, at the first time-out', () => {
    const { trackers, unanswered } = listening();
    trackers.completed(outcomes.success, 0, 20, 10);
    trackers.completed(outcomes.timeout, 30, 1_030, 47);
    expect(unanswered).toEqual([1, 37]);
  });

  it('hear of one call when the endpoint has answered others meanwhile', () => {
    const { trackers, unanswered } = listening();
    trackers.completed(outcomes.success, 0, 20, 10);
    trackers.completed(outcomes.success, 280, 300, 20);
    trackers.completed(outcomes.timeout, 30, 1_030, 47);
    expect(unanswered).toEqual([1, 1, 1]);
  });

  it('still count as silence what was answered at the beginning of the call', () => {
    const { trackers, unanswered } = listening();
    trackers.completed(outcomes.success, 0, 200, 10);
    trackers.completed(outcomes.timeout, 30, 1_030, 47);
    expect(unanswered).toEqual([1, 37]);
  });

  it('take no short pause for silence, however short the deadline of a call was', () => {
    const { trackers, unanswered } = listening();
    trackers.completed(outcomes.success, 0, 20, 10);
    trackers.completed(outcomes.timeout, 30, 50, 47);
    expect(unanswered).toEqual([1, 1]);
  });

  it('take any end but a time-out for a sign of life', () => {
    for (const outcome of [outcomes.status, outcomes.reset, outcomes.cancelled, outcomes.overload]) {
      const { trackers, unanswered } = listening();
      trackers.completed(outcome, 0, 900, 40);
      trackers.completed(outcomes.timeout, 30, 1_030, 47);
      expect(unanswered).toEqual([1, 1]);
    }
  });
});
