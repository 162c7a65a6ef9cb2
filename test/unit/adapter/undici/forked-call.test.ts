import { describe, expect, it } from 'vitest';
import { type Caller, ForkHouse } from '../../../../test/support/fake-pod-pool.js';

const statuses = { retry: { statuses: [503] } };
const reset = (): Error => Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' });
const refused = (): Error => Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });

describe('an answer that is asked of another pod', () => {
  it('is passed on only if it is the last; nothing of the others is', async () => {
    const house = await new ForkHouse(3, statuses).ready();
    const { timers } = house.clock;
    const caller = house.ask();
    house.requests[0]?.answer(503, 'first', { from: 'a' });
    house.requests[1]?.answer(503, 'second', { from: 'b' });
    expect(caller.heard).toEqual([]);
    house.requests[2]?.answer(503, 'third', { from: 'c' });
    expect(caller.heard).toEqual(['503 c', 'third', 'end']);
    expect(new Set(house.requests.map(({ address }) => address)).size).toBe(3);
    expect(house.told).toEqual(['1 failure status again', '2 failure status again', '3 failure status']);
    expect(house.inFlight).toBe(0);
    await house.clock.advanceAsync(2_000);
    expect(house.clock.timers).toBe(timers);
  });

  it('is decided at its head: the other is asked before the rest has come', async () => {
    const house = await new ForkHouse(2, statuses).ready();
    const caller = house.ask();
    const [first] = house.requests;
    first?.head(503);
    expect(house.requests).toHaveLength(2);
    house.requests[1]?.answer(200, 'good');
    first?.data('late').end();
    expect(caller.heard).toEqual(['200', 'good', 'end']);
    expect(house.inFlight).toBe(0);
  });

  it('is read up to 64 KB and for a second, then cut; its pod is told of as if it had ended', async () => {
    const house = await new ForkHouse(4, { retry: { statuses: [503], maxAttempts: 4 } }).ready();
    const caller = house.ask();
    house.requests[0]?.head(503).data(60_000).end();
    house.requests[1]?.head(503).data(60_000).data(6_000);
    house.requests[2]?.head(503).data(1);
    expect(house.requests.map(({ aborted }) => aborted !== undefined)).toEqual([false, true, false, false]);
    await house.clock.advanceAsync(1_000);
    expect(house.requests.map(({ aborted }) => aborted !== undefined)).toEqual([false, true, true, false]);
    house.requests[3]?.answer(200);
    expect(caller.heard).toEqual(['200', '', 'end']);
    expect(house.told.slice(0, 3)).toEqual([1, 2, 3].map((attempt) => `${attempt} failure status again`));
  });

  it('that says it is long is cut at once', async () => {
    const house = await new ForkHouse(2, statuses).ready();
    house.ask();
    house.requests[0]?.head(503, { 'content-length': '65537' });
    expect(house.requests[0]?.aborted).toBeDefined();
    expect(house.told).toEqual(['1 failure status again']);
  });

  it('is the answer where only the same pod is left, and costs nothing', async () => {
    const house = await new ForkHouse(1, { retry: { statuses: [503], budget: { ratio: 0, minPerSecond: 1 } } }).ready();
    for (let call = 0; call < 3; call++) {
      const caller = house.ask();
      house.last.answer(503, 'sorry');
      expect(caller.heard).toEqual(['503', 'sorry', 'end']);
    }
    expect(house.requests).toHaveLength(3);
    expect(house.balancer.retries.allowsHedge(1)).toBe(true);
  });

  it('is the answer where the others asked to be left alone', async () => {
    const house = await new ForkHouse(3, statuses).ready();
    const overloaded = { 'retry-after': '10' };
    const first = house.ask();
    for (let attempt = 0; attempt < 3; attempt++) house.last.answer(503, 'busy', overloaded);
    expect(first.heard).toEqual(['503', 'busy', 'end']);
    const second = house.ask();
    house.last.answer(503, 'busy');
    expect(second.heard).toEqual(['503', 'busy', 'end']);
    expect(house.requests).toHaveLength(4);
    await house.clock.advanceAsync(10_000);
    house.ask();
    house.last.answer(503);
    expect(house.requests).toHaveLength(6);
  });

  it('does not keep the next from being repeated for other reasons', async () => {
    const house = await new ForkHouse(3, statuses).ready();
    const caller = house.ask();
    house.last.answer(503);
    house.last.fail(reset());
    house.last.answer(200, 'third');
    expect(caller.heard).toEqual(['200', 'third', 'end']);
    expect(new Set(house.requests.map(({ address }) => address)).size).toBe(3);
    expect(house.told).toEqual(['1 failure status again', '2 failure reset again', '3 success']);
  });

  it('lets the 1xx of any attempt through', async () => {
    const house = await new ForkHouse(2, statuses).ready();
    const caller = house.ask();
    house.last.head(103).answer(503);
    house.last.head(103).answer(200);
    expect(caller.heard).toEqual(['103', '103', '200', '', 'end']);
  });

  it('of all pods at once is no storm: 1.2 times the calls and 10 a second', async () => {
    const house = await new ForkHouse(5, { retry: { statuses: [503], maxAttempts: 5 } }).ready();
    const seconds = 60;
    const perSecond = 200;
    for (let call = 0; call < seconds * perSecond; call++) {
      const caller = house.ask();
      for (let answered = -1; caller.heard.length === 0 && answered < house.requests.length; answered++) {
        house.last.answer(503);
      }
      expect(caller.heard[0]).toBe('503');
      house.clock.advance(1_000 / perSecond);
    }
    const calls = seconds * perSecond;
    expect(house.requests.length).toBeLessThanOrEqual(1.2 * calls + 10 * (seconds + 1));
    expect(house.requests.length).toBeGreaterThan(1.15 * calls);
  });
});

describe('a hedge', () => {
  const hedged = (more: object = {}): Promise<ForkHouse> =>
    new ForkHouse(3, { hedge: { afterMs: 50 }, ...more }).ready();

  it('is made on another pod when its time has come, not before', async () => {
    const house = await hedged();
    house.ask();
    house.clock.advance(49);
    expect(house.requests).toHaveLength(1);
    house.clock.advance(1);
    expect(house.requests).toHaveLength(2);
    expect(house.requests[0]?.address).not.toBe(house.requests[1]?.address);
    house.clock.advance(10_000);
    expect(house.requests).toHaveLength(2);
  });

  it.each([0, 1])(
    'first head wins, here that of attempt %s; the other is cut and says nothing of its pod',
    async (winner) => {
      const house = await hedged();
      const caller = house.ask();
      house.clock.advance(50);
      house.requests[winner]?.head(200, { from: 'winner' });
      expect(house.requests[1 - winner]?.aborted).toBeDefined();
      house.requests[winner]?.data('body').end();
      expect(caller.heard).toEqual(['200 winner', 'body', 'end']);
      expect(house.told).toEqual(
        winner === 0 ? ['2 cancelled hedge', '1 success'] : ['1 cancelled', '2 success hedge'],
      );
      expect(house.inFlight).toBe(0);
    },
  );

  it('makes a loser that was silent for longer than stalledAfterMs a time-out', async () => {
    const house = await hedged({ hedge: { afterMs: 1_500 } });
    house.ask();
    house.clock.advance(1_500);
    house.last.answer(200);
    expect(house.balancer.snapshot().endpoints.reduce((sum, { failed }) => sum + failed, 0)).toBe(1);
  });

  it('is not made of an answered request, nor after an abort', async () => {
    const house = await hedged();
    house.ask();
    house.last.answer(200);
    const caller = house.ask();
    caller.controller?.abort(new Error('enough'));
    house.clock.advance(1_000);
    expect(house.requests).toHaveLength(2);
    expect(caller.error?.message).toBe('enough');
  });

  it('is not made without a budget, beyond maxAttempts, or where there is no other pod', async () => {
    const poor = await hedged({ retry: { budget: { ratio: 0, minPerSecond: 0 } } });
    const once = await hedged({ retry: { maxAttempts: 1 } });
    const alone = await new ForkHouse(1, {
      hedge: { afterMs: 50 },
      retry: { budget: { ratio: 0, minPerSecond: 1 } },
    }).ready();
    for (const house of [poor, once, alone]) {
      house.ask();
      house.clock.advance(1_000);
      expect(house.requests).toHaveLength(1);
      expect(house.inFlight).toBe(1);
    }
    // Nothing was paid for what could not be done.
    expect(alone.balancer.retries.allowsHedge(1)).toBe(true);
  });

  it('is made later where it could not be made at first', async () => {
    const house = await hedged({ retry: { budget: { ratio: 0, minPerSecond: 1 } } });
    expect(house.balancer.retries.allowsHedge(1)).toBe(true);
    house.ask();
    house.clock.advance(900);
    expect(house.requests).toHaveLength(1);
    house.clock.advance(150);
    expect(house.requests).toHaveLength(2);
    house.clock.advance(10_000);
    expect(house.requests).toHaveLength(2);
  });

  it('is made up to max times, each after the same time, each elsewhere', async () => {
    const house = await hedged({ hedge: { afterMs: 50, max: 5 }, retry: { maxAttempts: 10 } });
    house.ask();
    house.clock.advance(1_000);
    expect(house.requests.map(({ address }) => address).sort()).toEqual(['10.0.0.1', '10.0.0.2', '10.0.0.3']);
  });

  it('is paid from the budget of retries', async () => {
    const house = await hedged({ retry: { budget: { ratio: 0.1, minPerSecond: 0 } } });
    for (let call = 0; call < 100; call++) house.ask();
    house.clock.advance(50);
    expect(house.requests).toHaveLength(110);
  });

  it('lets one that fails be forgotten, and the last one be heard', async () => {
    const house = await hedged();
    const caller = house.ask();
    house.clock.advance(50);
    house.requests[0]?.fail(reset());
    expect(caller.heard).toEqual([]);
    house.requests[1]?.answer(200, 'good');
    expect(caller.heard).toEqual(['200', 'good', 'end']);
    expect(house.told).toEqual(['1 failure reset', '2 success hedge']);
  });

  it.each([
    [0, 1],
    [1, 0],
  ])('counts as an attempt, whichever of the two fails first: %i, then %i', async (first, second) => {
    const house = await hedged({ retry: { maxAttempts: 2 } });
    const caller = house.ask();
    house.clock.advance(50);
    house.requests[first]?.fail(reset());
    house.requests[second]?.fail(reset());
    expect(house.requests).toHaveLength(2);
    expect(caller.heard).toEqual(['error']);
  });

  it('leaves what fails last to the rules of any call', async () => {
    const house = await hedged();
    const caller = house.ask();
    house.clock.advance(50);
    house.requests[0]?.fail(reset());
    house.requests[1]?.fail(reset());
    expect(house.requests).toHaveLength(3);
    const error = reset();
    house.requests[2]?.fail(error);
    expect(caller.error).toBe(error);
    expect(house.told).toEqual(['1 failure reset', '2 failure reset hedge again', '3 failure reset hedge']);
    expect(house.inFlight).toBe(0);
  });

  it('makes an answer to be asked elsewhere wait for the other attempt, at no price', async () => {
    const house = await hedged({ retry: { statuses: [503], budget: { ratio: 0, minPerSecond: 1 } } });
    const caller = house.ask();
    house.clock.advance(50);
    house.requests[0]?.answer(503, 'no');
    expect(caller.heard).toEqual([]);
    house.requests[1]?.answer(200, 'yes');
    expect(caller.heard).toEqual(['200', 'yes', 'end']);
    expect(house.requests).toHaveLength(2);
  });

  it('that is not written yet when the other wins is taken back when undici comes to it', async () => {
    const house = await hedged();
    const caller = house.ask();
    house.beginsAtOnce = false;
    house.clock.advance(50);
    house.requests[0]?.answer(200, 'good');
    expect(caller.heard).toEqual(['200', 'good', 'end']);
    expect(house.inFlight).toBe(1);
    house.requests[1]?.begin();
    expect(house.requests[1]?.aborted).toBeDefined();
    expect(house.inFlight).toBe(0);
    expect(house.told).toEqual(['1 success', '2 cancelled hedge']);
  });

  it('a pause of the caller before there is an answer is for whichever comes', async () => {
    const house = await hedged();
    const caller = house.ask();
    caller.controller?.pause();
    expect(caller.controller?.paused).toBe(true);
    house.clock.advance(50);
    house.requests[1]?.head(200);
    expect(house.requests[1]?.paused).toBe(true);
    caller.controller?.resume();
    expect(house.requests[1]?.paused).toBe(false);
  });

  it('is made at the quantile of the times that were measured', async () => {
    const house = await new ForkHouse(2, { hedge: { afterQuantile: 0.9 } }).ready();
    for (let call = 0; call < 200; call++) {
      house.ask();
      house.clock.advance(call % 10 === 0 && call < 100 ? 80 : 8);
      house.last.answer(200);
    }
    // 5 % took 80 ms; a bucket of the histogram is up to 19 % wide.
    const caller = house.ask();
    const arrived = house.requests.length;
    house.clock.advance(7.9);
    expect(house.requests).toHaveLength(arrived);
    house.clock.advance(90);
    expect(house.requests).toHaveLength(arrived + 1);
    expect(caller.heard).toEqual([]);
  });
});

describe('the deadline', () => {
  it('is one for all attempts; what had half of it is a time-out, what had less is not', async () => {
    const house = await new ForkHouse(2, { hedge: { afterMs: 60 } }).ready();
    const { timers } = house.clock;
    const caller = house.ask({}, 100);
    await house.clock.advanceAsync(100);
    expect(caller.error).toMatchObject({ code: 'EVENKEEL_DEADLINE' });
    expect(caller.error?.message).toBe(
      `http://orders.shop:8080: GET did not finish within 100 ms: no answer from ${house.requests[0]?.address}:80 and no answer from ${house.requests[1]?.address}:80`,
    );
    expect(house.told).toEqual(['1 failure timeout', '2 cancelled hedge']);
    expect(house.inFlight).toBe(0);
    await house.clock.advanceAsync(2_000);
    expect(house.clock.timers).toBe(timers);
  });

  it('is for all attempts together: one that began late is not a time-out of its pod', async () => {
    const house = await new ForkHouse(2).ready();
    const caller = house.ask({}, 100);
    await house.clock.advanceAsync(60);
    const before = house.last.address;
    house.last.fail(reset());
    await house.clock.advanceAsync(40);
    expect(caller.error?.message).toContain(`no answer from ${house.last.address}:80; before that ${before}:80`);
    expect(house.told).toEqual(['1 failure reset again', '2 cancelled']);
  });

  it('says where it waited for a connection, and where the call was before', async () => {
    const house = await new ForkHouse(2, statuses).ready();
    const caller = house.ask({}, 100);
    const before = house.last.address;
    house.beginsAtOnce = false;
    house.last.answer(503);
    await house.clock.advanceAsync(100);
    expect(caller.error?.message).toContain(
      `it waited for a connection to ${house.last.address}:80; before that ${before}:80`,
    );
  });

  it('is told once, also when an attempt fails at the same moment', async () => {
    const house = await new ForkHouse(2, statuses).ready();
    const caller = house.ask({}, 100);
    await house.clock.advanceAsync(100);
    house.last.fail(reset());
    house.last.end();
    expect(caller.heard).toEqual(['error']);
  });
});

describe('no timer is left', () => {
  it.each([
    ['an answer', (house: ForkHouse) => house.last.answer(200)],
    ['an answer given up and another', (house: ForkHouse) => [503, 200].map((status) => house.last.answer(status))],
    ['a failure', (house: ForkHouse) => house.last.fail(new Error('of nobody knows what'))],
    ['an abort', (_house: ForkHouse, caller: Caller) => caller.controller?.abort(new Error('enough'))],
    ['a hedge that wins', (house: ForkHouse) => [house.clock.advance(50), house.last.answer(200)]],
    ['the deadline', (house: ForkHouse) => house.clock.advance(60_000)],
  ])('after %s', async (_name, end) => {
    const house = await new ForkHouse(3, { ...statuses, hedge: { afterMs: 50 } }).ready();
    const caller = house.ask({}, 60_000);
    expect(house.timers.running).toBe(2);
    end(house, caller);
    expect(caller.heard.length).toBeGreaterThan(0);
    expect(house.timers.running).toBe(0);
    expect(house.inFlight).toBe(0);
  });
});

describe('a caller', () => {
  it('whose handler throws at the head gets his own error, and no pod is blamed', async () => {
    const house = await new ForkHouse(2, statuses).ready();
    const caller = house.ask();
    const error = new Error('mine');
    caller.handler.onResponseStart = () => {
      throw error;
    };
    house.last.answer(200);
    expect(caller.error).toBe(error);
    expect(house.told).toEqual(['1 cancelled']);
  });

  it('who aborts between two attempts ends both', async () => {
    const house = await new ForkHouse(2, statuses).ready();
    const caller = house.ask();
    house.last.head(503);
    caller.controller?.abort(new Error('enough'));
    caller.controller?.abort(new Error('twice'));
    expect(caller.error?.message).toBe('enough');
    expect([caller.controller?.aborted, caller.controller?.reason]).toEqual([true, caller.error]);
    await house.clock.advanceAsync(1_000);
    expect(house.inFlight).toBe(0);
    expect(house.told).toEqual(['2 cancelled', '1 failure status again']);
  });

  it('gets the error of the last attempt when no pod takes a connection', async () => {
    const house = await new ForkHouse(2, statuses).ready();
    house.beginsAtOnce = false;
    const caller = house.ask();
    for (let attempt = 0; attempt < 3; attempt++) {
      expect(caller.heard).toEqual([]);
      house.last.fail(refused());
      await house.clock.advanceAsync(0);
    }
    expect(house.requests).toHaveLength(3);
    expect(caller.heard).toEqual(['error']);
    expect(house.inFlight).toBe(0);
  });
});

describe('what the snapshot counts', () => {
  it('retries by reason, hedges and what they brought, and what the budget refused', async () => {
    const house = await new ForkHouse(3, {
      hedge: { afterMs: 50 },
      retry: { statuses: [503], budget: { ratio: 0, minPerSecond: 3 } },
    }).ready();
    const { counts: before } = house.balancer.snapshot();
    expect(before).toMatchObject({ calls: 0, picks: 0, hedges: 0, hedgesWon: 0, overBudget: 0, refused: 0 });
    house.ask();
    house.last.answer(503);
    house.last.fail(reset());
    house.last.answer(200);
    house.ask();
    await house.clock.advanceAsync(50);
    house.last.answer(200);
    // The budget had three; time has brought too little.
    house.ask();
    house.last.answer(503);
    const { counts } = house.balancer.snapshot();
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

  it('no retry and no hedge that could not be made', async () => {
    const house = await new ForkHouse(1, { hedge: { afterMs: 50 }, retry: { statuses: [503] } }).ready();
    house.ask();
    await house.clock.advanceAsync(60);
    house.last.answer(503);
    const { hedges, retries, picks } = house.balancer.snapshot().counts;
    // Each was given back: the only pod had the call already.
    expect([hedges, retries.status, picks]).toEqual([0, 0, 3]);
  });
});
