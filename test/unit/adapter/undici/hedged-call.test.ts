import { describe, expect, it } from 'vitest';
import { type Caller, HedgeFixture } from '../../../support/fixtures/fake-pod-pool.js';

const statuses = { retry: { statuses: [503] } };
const reset = (): Error => Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' });
const refused = (): Error => Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });

describe('a response whose request is also sent to another pod', () => {
  it('is passed on only if it is the last; no part of the others is', async () => {
    const fixture = await new HedgeFixture(3, statuses).ready();
    const { timers } = fixture.clock;
    const caller = fixture.ask();
    fixture.requests[0]?.answer(503, 'first', { from: 'a' });
    fixture.requests[1]?.answer(503, 'second', { from: 'b' });
    expect(caller.heard).toEqual([]);
    fixture.requests[2]?.answer(503, 'third', { from: 'c' });
    expect(caller.heard).toEqual(['503 c', 'third', 'end']);
    expect(new Set(fixture.requests.map(({ address }) => address)).size).toBe(3);
    expect(fixture.told).toEqual(['1 failure status again', '2 failure status again', '3 failure status']);
    expect(fixture.inFlight).toBe(0);
    await fixture.clock.advanceAsync(2_000);
    expect(fixture.clock.timers).toBe(timers);
  });

  it('is decided by its head: the other pod is asked before the rest has come', async () => {
    const fixture = await new HedgeFixture(2, statuses).ready();
    const caller = fixture.ask();
    const [first] = fixture.requests;
    first?.head(503);
    expect(fixture.requests).toHaveLength(2);
    fixture.requests[1]?.answer(200, 'good');
    first?.data('late').end();
    expect(caller.heard).toEqual(['200', 'good', 'end']);
    expect(fixture.inFlight).toBe(0);
  });

  it('is read up to 64 KB and for a second, then cut; its pod counts as if it had ended', async () => {
    const fixture = await new HedgeFixture(4, { retry: { statuses: [503], maxAttempts: 4 } }).ready();
    const caller = fixture.ask();
    fixture.requests[0]?.head(503).data(60_000).end();
    fixture.requests[1]?.head(503).data(60_000).data(6_000);
    fixture.requests[2]?.head(503).data(1);
    expect(fixture.requests.map(({ aborted }) => aborted !== undefined)).toEqual([false, true, false, false]);
    await fixture.clock.advanceAsync(1_000);
    expect(fixture.requests.map(({ aborted }) => aborted !== undefined)).toEqual([false, true, true, false]);
    fixture.requests[3]?.answer(200);
    expect(caller.heard).toEqual(['200', '', 'end']);
    expect(fixture.told.slice(0, 3)).toEqual([1, 2, 3].map((attempt) => `${attempt} failure status again`));
  });

  it('is cut at once if its Content-Length is too large', async () => {
    const fixture = await new HedgeFixture(2, statuses).ready();
    fixture.ask();
    fixture.requests[0]?.head(503, { 'content-length': '65537' });
    expect(fixture.requests[0]?.aborted).toBeDefined();
    expect(fixture.told).toEqual(['1 failure status again']);
  });

  it('is passed on where only the same pod is left, and costs nothing', async () => {
    const fixture = await new HedgeFixture(1, {
      retry: { statuses: [503], budget: { ratio: 0, minPerSecond: 1 } },
    }).ready();
    for (let call = 0; call < 3; call++) {
      const caller = fixture.ask();
      fixture.last.answer(503, 'sorry');
      expect(caller.heard).toEqual(['503', 'sorry', 'end']);
    }
    expect(fixture.requests).toHaveLength(3);
    expect(fixture.balancer.retries.allowsHedge(1)).toBe(true);
  });

  it('is passed on where the other pods asked for a pause', async () => {
    const fixture = await new HedgeFixture(3, statuses).ready();
    const overloaded = { 'retry-after': '10' };
    const first = fixture.ask();
    for (let attempt = 0; attempt < 3; attempt++) fixture.last.answer(503, 'busy', overloaded);
    expect(first.heard).toEqual(['503', 'busy', 'end']);
    const second = fixture.ask();
    fixture.last.answer(503, 'busy');
    expect(second.heard).toEqual(['503', 'busy', 'end']);
    expect(fixture.requests).toHaveLength(4);
    await fixture.clock.advanceAsync(10_000);
    fixture.ask();
    fixture.last.answer(503);
    expect(fixture.requests).toHaveLength(6);
  });

  it('does not prevent a retry of the next one for another reason', async () => {
    const fixture = await new HedgeFixture(3, statuses).ready();
    const caller = fixture.ask();
    fixture.last.answer(503);
    fixture.last.fail(reset());
    fixture.last.answer(200, 'third');
    expect(caller.heard).toEqual(['200', 'third', 'end']);
    expect(new Set(fixture.requests.map(({ address }) => address)).size).toBe(3);
    expect(fixture.told).toEqual(['1 failure status again', '2 failure reset again', '3 success']);
  });

  it('lets informational responses of any attempt through', async () => {
    const fixture = await new HedgeFixture(2, statuses).ready();
    const caller = fixture.ask();
    fixture.last.head(103).answer(503);
    fixture.last.head(103).answer(200);
    expect(caller.heard).toEqual(['103', '103', '200', '', 'end']);
  });

  it('from all pods at once causes no storm: 1.2 times the calls and 10 a second', async () => {
    const fixture = await new HedgeFixture(5, { retry: { statuses: [503], maxAttempts: 5 } }).ready();
    const seconds = 60;
    const perSecond = 200;
    for (let call = 0; call < seconds * perSecond; call++) {
      const caller = fixture.ask();
      for (let answered = -1; caller.heard.length === 0 && answered < fixture.requests.length; answered++) {
        fixture.last.answer(503);
      }
      expect(caller.heard[0]).toBe('503');
      fixture.clock.advance(1_000 / perSecond);
    }
    const calls = seconds * perSecond;
    expect(fixture.requests.length).toBeLessThanOrEqual(1.2 * calls + 10 * (seconds + 1));
    expect(fixture.requests.length).toBeGreaterThan(1.15 * calls);
  });
});

describe('a hedge', () => {
  const hedged = (more: object = {}): Promise<HedgeFixture> =>
    new HedgeFixture(3, { hedge: { afterMs: 50 }, ...more }).ready();

  it('is sent to another pod when its time has come, not before', async () => {
    const fixture = await hedged();
    fixture.ask();
    fixture.clock.advance(49);
    expect(fixture.requests).toHaveLength(1);
    fixture.clock.advance(1);
    expect(fixture.requests).toHaveLength(2);
    expect(fixture.requests[0]?.address).not.toBe(fixture.requests[1]?.address);
    fixture.clock.advance(10_000);
    expect(fixture.requests).toHaveLength(2);
  });

  it.each([0, 1])(
    'wins with the first head, here of attempt %s; the other attempt is cut and not held against its pod',
    async (winner) => {
      const fixture = await hedged();
      const caller = fixture.ask();
      fixture.clock.advance(50);
      fixture.requests[winner]?.head(200, { from: 'winner' });
      expect(fixture.requests[1 - winner]?.aborted).toBeDefined();
      fixture.requests[winner]?.data('body').end();
      expect(caller.heard).toEqual(['200 winner', 'body', 'end']);
      expect(fixture.told).toEqual(
        winner === 0 ? ['2 cancelled hedge', '1 success'] : ['1 cancelled', '2 success hedge'],
      );
      expect(fixture.inFlight).toBe(0);
    },
  );

  it('makes the losing attempt a timeout if it was silent for longer than stalledAfterMs', async () => {
    const fixture = await hedged({ hedge: { afterMs: 1_500 } });
    fixture.ask();
    fixture.clock.advance(1_500);
    fixture.last.answer(200);
    expect(fixture.balancer.snapshot().endpoints.reduce((sum, { failed }) => sum + failed, 0)).toBe(1);
  });

  it('is not sent after a response head, nor after an abort', async () => {
    const fixture = await hedged();
    fixture.ask();
    fixture.last.answer(200);
    const caller = fixture.ask();
    caller.controller?.abort(new Error('enough'));
    fixture.clock.advance(1_000);
    expect(fixture.requests).toHaveLength(2);
    expect(caller.error?.message).toBe('enough');
  });

  it('is not sent without a budget, beyond maxAttempts, or without another pod', async () => {
    const poor = await hedged({ retry: { budget: { ratio: 0, minPerSecond: 0 } } });
    const once = await hedged({ retry: { maxAttempts: 1 } });
    const alone = await new HedgeFixture(1, {
      hedge: { afterMs: 50 },
      retry: { budget: { ratio: 0, minPerSecond: 1 } },
    }).ready();
    for (const fixture of [poor, once, alone]) {
      fixture.ask();
      fixture.clock.advance(1_000);
      expect(fixture.requests).toHaveLength(1);
      expect(fixture.inFlight).toBe(1);
    }
    // Nothing was paid for what could not be done.
    expect(alone.balancer.retries.allowsHedge(1)).toBe(true);
  });

  it('is sent later if it was not possible at first', async () => {
    const fixture = await hedged({ retry: { budget: { ratio: 0, minPerSecond: 1 } } });
    expect(fixture.balancer.retries.allowsHedge(1)).toBe(true);
    fixture.ask();
    fixture.clock.advance(900);
    expect(fixture.requests).toHaveLength(1);
    fixture.clock.advance(150);
    expect(fixture.requests).toHaveLength(2);
    fixture.clock.advance(10_000);
    expect(fixture.requests).toHaveLength(2);
  });

  it('is sent up to max times, each after the same time, each to another pod', async () => {
    const fixture = await hedged({ hedge: { afterMs: 50, max: 5 }, retry: { maxAttempts: 10 } });
    fixture.ask();
    fixture.clock.advance(1_000);
    expect(fixture.requests.map(({ address }) => address).sort()).toEqual(['10.0.0.1', '10.0.0.2', '10.0.0.3']);
  });

  it('is paid from the retry budget', async () => {
    const fixture = await hedged({ retry: { budget: { ratio: 0.1, minPerSecond: 0 } } });
    for (let call = 0; call < 100; call++) fixture.ask();
    fixture.clock.advance(50);
    expect(fixture.requests).toHaveLength(110);
  });

  it('replaces a failed response, and the caller gets the last one', async () => {
    const fixture = await hedged();
    const caller = fixture.ask();
    fixture.clock.advance(50);
    fixture.requests[0]?.fail(reset());
    expect(caller.heard).toEqual([]);
    fixture.requests[1]?.answer(200, 'good');
    expect(caller.heard).toEqual(['200', 'good', 'end']);
    expect(fixture.told).toEqual(['1 failure reset', '2 success hedge']);
  });

  it.each([
    [0, 1],
    [1, 0],
  ])('counts as an attempt, whichever of the two fails first: %i, then %i', async (first, second) => {
    const fixture = await hedged({ retry: { maxAttempts: 2 } });
    const caller = fixture.ask();
    fixture.clock.advance(50);
    fixture.requests[first]?.fail(reset());
    fixture.requests[second]?.fail(reset());
    expect(fixture.requests).toHaveLength(2);
    expect(caller.heard).toEqual(['error']);
  });

  it('leaves the last failure to the rules for any call', async () => {
    const fixture = await hedged();
    const caller = fixture.ask();
    fixture.clock.advance(50);
    fixture.requests[0]?.fail(reset());
    fixture.requests[1]?.fail(reset());
    expect(fixture.requests).toHaveLength(3);
    const error = reset();
    fixture.requests[2]?.fail(error);
    expect(caller.error).toBe(error);
    expect(fixture.told).toEqual(['1 failure reset', '2 failure reset hedge again', '3 failure reset hedge']);
    expect(fixture.inFlight).toBe(0);
  });

  it('makes a response that would be retried wait for the other attempt, at no cost', async () => {
    const fixture = await hedged({ retry: { statuses: [503], budget: { ratio: 0, minPerSecond: 1 } } });
    const caller = fixture.ask();
    fixture.clock.advance(50);
    fixture.requests[0]?.answer(503, 'no');
    expect(caller.heard).toEqual([]);
    fixture.requests[1]?.answer(200, 'yes');
    expect(caller.heard).toEqual(['200', 'yes', 'end']);
    expect(fixture.requests).toHaveLength(2);
  });

  it('that is not written yet when the other wins is withdrawn when undici reaches it', async () => {
    const fixture = await hedged();
    const caller = fixture.ask();
    fixture.beginsAtOnce = false;
    fixture.clock.advance(50);
    fixture.requests[0]?.answer(200, 'good');
    expect(caller.heard).toEqual(['200', 'good', 'end']);
    expect(fixture.inFlight).toBe(1);
    fixture.requests[1]?.begin();
    expect(fixture.requests[1]?.aborted).toBeDefined();
    expect(fixture.inFlight).toBe(0);
    expect(fixture.told).toEqual(['1 success', '2 not-started hedge']);
  });

  it('gets the pause that the caller asked for before there was a response', async () => {
    const fixture = await hedged();
    const caller = fixture.ask();
    caller.controller?.pause();
    expect(caller.controller?.paused).toBe(true);
    fixture.clock.advance(50);
    fixture.requests[1]?.head(200);
    expect(fixture.requests[1]?.paused).toBe(true);
    caller.controller?.resume();
    expect(fixture.requests[1]?.paused).toBe(false);
  });

  it('is sent at the quantile of the measured latencies', async () => {
    const fixture = await new HedgeFixture(2, { hedge: { afterQuantile: 0.9 } }).ready();
    for (let call = 0; call < 200; call++) {
      fixture.ask();
      fixture.clock.advance(call % 10 === 0 && call < 100 ? 80 : 8);
      fixture.last.answer(200);
    }
    // 5 % took 80 ms; a bucket of the histogram is up to 19 % wide.
    const caller = fixture.ask();
    const arrived = fixture.requests.length;
    fixture.clock.advance(7.9);
    expect(fixture.requests).toHaveLength(arrived);
    fixture.clock.advance(90);
    expect(fixture.requests).toHaveLength(arrived + 1);
    expect(caller.heard).toEqual([]);
  });
});

describe('the deadline', () => {
  it('applies to all attempts; an attempt with half of it is a timeout, one with less is not', async () => {
    const fixture = await new HedgeFixture(2, { hedge: { afterMs: 60 } }).ready();
    const { timers } = fixture.clock;
    const caller = fixture.ask({}, 100);
    await fixture.clock.advanceAsync(100);
    expect(caller.error).toMatchObject({ code: 'EVENKEEL_DEADLINE' });
    expect(caller.error?.message).toBe(
      `http://orders.shop:8080: GET did not finish within 100 ms: no answer from ${fixture.requests[0]?.address}:80 and no answer from ${fixture.requests[1]?.address}:80`,
    );
    expect(fixture.told).toEqual(['1 failure timeout', '2 cancelled hedge']);
    expect(fixture.inFlight).toBe(0);
    await fixture.clock.advanceAsync(2_000);
    expect(fixture.clock.timers).toBe(timers);
  });

  it('applies to all attempts together: one that began late is not a timeout of its pod', async () => {
    const fixture = await new HedgeFixture(2).ready();
    const caller = fixture.ask({}, 100);
    await fixture.clock.advanceAsync(60);
    const before = fixture.last.address;
    fixture.last.fail(reset());
    await fixture.clock.advanceAsync(40);
    expect(caller.error?.message).toContain(`no answer from ${fixture.last.address}:80; before that ${before}:80`);
    expect(fixture.told).toEqual(['1 failure reset again', '2 cancelled']);
  });

  it('says in its error where the call waited for a connection, and which pods were tried before', async () => {
    const fixture = await new HedgeFixture(2, statuses).ready();
    const caller = fixture.ask({}, 100);
    const before = fixture.last.address;
    fixture.beginsAtOnce = false;
    fixture.last.answer(503);
    await fixture.clock.advanceAsync(100);
    expect(caller.error?.message).toContain(
      `it waited for a connection to ${fixture.last.address}:80; before that ${before}:80`,
    );
  });

  it('fails the call once, even if an attempt fails at the same moment', async () => {
    const fixture = await new HedgeFixture(2, statuses).ready();
    const caller = fixture.ask({}, 100);
    await fixture.clock.advanceAsync(100);
    fixture.last.fail(reset());
    fixture.last.end();
    expect(caller.heard).toEqual(['error']);
  });
});

describe('no timer is left', () => {
  it.each([
    ['an answer', (fixture: HedgeFixture) => fixture.last.answer(200)],
    [
      'an answer given up and another',
      (fixture: HedgeFixture) => [503, 200].map((status) => fixture.last.answer(status)),
    ],
    ['a failure', (fixture: HedgeFixture) => fixture.last.fail(new Error('of nobody knows what'))],
    ['an abort', (_fixture: HedgeFixture, caller: Caller) => caller.controller?.abort(new Error('enough'))],
    ['a hedge that wins', (fixture: HedgeFixture) => [fixture.clock.advance(50), fixture.last.answer(200)]],
    ['the deadline', (fixture: HedgeFixture) => fixture.clock.advance(60_000)],
  ])('after %s', async (_name, end) => {
    const fixture = await new HedgeFixture(3, { ...statuses, hedge: { afterMs: 50 } }).ready();
    const caller = fixture.ask({}, 60_000);
    expect(fixture.timers.running).toBe(2);
    end(fixture, caller);
    expect(caller.heard.length).toBeGreaterThan(0);
    expect(fixture.timers.running).toBe(0);
    expect(fixture.inFlight).toBe(0);
  });
});

describe('a caller', () => {
  it('whose handler throws at the response headers gets its own error, and no pod is blamed', async () => {
    const fixture = await new HedgeFixture(2, statuses).ready();
    const caller = fixture.ask();
    const error = new Error('mine');
    caller.handler.onResponseStart = () => {
      throw error;
    };
    fixture.last.answer(200);
    expect(caller.error).toBe(error);
    expect(fixture.told).toEqual(['1 cancelled']);
  });

  it('that aborts between two attempts ends both', async () => {
    const fixture = await new HedgeFixture(2, statuses).ready();
    const caller = fixture.ask();
    fixture.last.head(503);
    caller.controller?.abort(new Error('enough'));
    caller.controller?.abort(new Error('twice'));
    expect(caller.error?.message).toBe('enough');
    expect([caller.controller?.aborted, caller.controller?.reason]).toEqual([true, caller.error]);
    await fixture.clock.advanceAsync(1_000);
    expect(fixture.inFlight).toBe(0);
    expect(fixture.told).toEqual(['1 failure status again', '2 cancelled']);
  });

  it('gets the error of the last attempt when no pod accepts a connection', async () => {
    const fixture = await new HedgeFixture(2, statuses).ready();
    fixture.beginsAtOnce = false;
    const caller = fixture.ask();
    for (let attempt = 0; attempt < 3; attempt++) {
      expect(caller.heard).toEqual([]);
      fixture.last.fail(refused());
      await fixture.clock.advanceAsync(0);
    }
    expect(fixture.requests).toHaveLength(3);
    expect(caller.heard).toEqual(['error']);
    expect(fixture.inFlight).toBe(0);
  });
});

describe('the counts in a snapshot', () => {
  it('include retries by reason, hedges and their wins, and what the budget refused', async () => {
    const fixture = await new HedgeFixture(3, {
      hedge: { afterMs: 50 },
      retry: { statuses: [503], budget: { ratio: 0, minPerSecond: 3 } },
    }).ready();
    const { counts: before } = fixture.balancer.snapshot();
    expect(before).toMatchObject({ calls: 0, picks: 0, hedges: 0, hedgesWon: 0, overBudget: 0, refused: 0 });
    fixture.ask();
    fixture.last.answer(503);
    fixture.last.fail(reset());
    fixture.last.answer(200);
    fixture.ask();
    await fixture.clock.advanceAsync(50);
    fixture.last.answer(200);
    // The budget had three; time has brought too little.
    fixture.ask();
    fixture.last.answer(503);
    const { counts } = fixture.balancer.snapshot();
    expect(counts).toMatchObject({ calls: 3, picks: 6, hedges: 1, hedgesWon: 1, overBudget: 1, refused: 0 });
    expect(counts.retries).toEqual({
      'not-started': 0,
      connect: 0,
      reset: 1,
      timeout: 0,
      status: 1,
      overload: 0,
      protocol: 0,
    });
  });

  it('do not include retries and hedges that could not be made', async () => {
    const fixture = await new HedgeFixture(1, { hedge: { afterMs: 50 }, retry: { statuses: [503] } }).ready();
    fixture.ask();
    await fixture.clock.advanceAsync(60);
    fixture.last.answer(503);
    const { hedges, retries, picks } = fixture.balancer.snapshot().counts;
    // Each was given back: the only pod had the call already.
    expect([hedges, retries.status, picks]).toEqual([0, 0, 3]);
  });
});
