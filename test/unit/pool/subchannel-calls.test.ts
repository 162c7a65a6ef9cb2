import { describe, expect, it } from 'vitest';
import { createEndpoint } from '../../../src/endpoint/endpoint.js';
import { type Outcome, outcomes } from '../../../src/endpoint/outcome.js';
import { inFlight } from '../../../src/load/in-flight.js';
import type { Load } from '../../../src/load/load.js';
import { relativeLatency } from '../../../src/load/relative-latency.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import { slotsOf, subchannel, WatchedSlots } from '../../support/fixtures/pick-set.js';
import { readyFixture, SubchannelFixture } from '../../support/fixtures/subchannel-fixture.js';

describe('the counts of a subchannel', () => {
  it('include calls begun, running and failed, also those that found no connection', async () => {
    const fixture = await readyFixture();
    for (const outcome of Object.values(outcomes)) fixture.call().end(outcome);
    fixture.call();
    expect(fixture.subchannel).toMatchObject({ started: 10, inFlight: 1, failed: 6 });
  });

  it('tells trackers how long the call lasted, and the load how long the endpoint took', async () => {
    const measured: number[] = [];
    const load = {
      decays: false,
      start: () => {},
      end: (from: number, to: number) => measured.push(to - from),
      value: () => 1,
    };
    const fixture = await readyFixture({ load });
    const startedMs = fixture.clock.now();
    fixture.subchannel.start(startedMs);
    fixture.clock.advance(500);
    fixture.subchannel.end(startedMs, fixture.clock.now(), outcomes.success, fixture.clock.now() - 20);
    expect(fixture.told).toEqual(['connected', 'completed success 500']);
    expect(measured).toEqual([20]);
  });

  it('tells trackers of no success that they would ignore, and of everything else', async () => {
    const told: string[] = [];
    const tracker = {
      ignoresSuccess: false,
      connected: () => told.push('connected'),
      completed: ({ kind }: Outcome) => {
        told.push(kind);
        tracker.ignoresSuccess = told.length >= 3;
      },
    };
    const fixture = await readyFixture({ tracker });
    for (let call = 0; call < 4; call++) fixture.call().end();
    fixture.call().end(outcomes.status);
    fixture.call().end();
    expect(told).toEqual(['connected', 'success', 'success', 'failure']);
    fixture.last.end(new Error('reset'));
    await fixture.clock.advanceAsync(200);
    fixture.call().end();
    expect(told.slice(4)).toEqual(['connected', 'success']);
  });

  it('tells trackers at a timeout how many calls have begun since the last response of any kind', async () => {
    const ends = [outcomes.success, outcomes.status, outcomes.reset, outcomes.cancelled, outcomes.overload];
    for (const ignoresSuccess of [false, true]) {
      for (const outcome of ends) {
        const unanswered: number[] = [];
        const completed = (_outcome: Outcome, _latencyMs: number, count: number) => unanswered.push(count);
        const fixture = await readyFixture({ tracker: { completed, ignoresSuccess } });
        // The first is heard of by everyone.
        fixture.call().end();
        fixture.call().end(outcome);
        const calls = Array.from({ length: 7 }, () => fixture.call());
        fixture.clock.advance(1_000);
        calls[0]?.end(outcomes.timeout);
        expect(unanswered.at(-1)).toBe(7);
        calls[3]?.end(outcomes.timeout);
        expect(unanswered.at(-1)).toBe(7);
        calls[1]?.end(outcome);
        calls[2]?.end(outcomes.timeout);
        expect(unanswered.at(-1)).toBe(1);
      }
    }
  });

  it('keep for at most a minute that the endpoint asked for a pause, and use the longest one', async () => {
    const fixture = await readyFixture();
    const nowMs = fixture.clock.now();
    for (const [retryAfterMs, untilMs] of [
      [5_000, 5_000],
      [2_000, 5_000],
      [3_600_000, 60_000],
    ] as const) {
      fixture.call().end({ ...outcomes.overload, retryAfterMs });
      expect(fixture.subchannel.pushedBackUntilMs).toBe(nowMs + untilMs);
    }
  });

  it('has no capacity without a connection, and that of its connection with one', async () => {
    const fixture = new SubchannelFixture();
    expect(fixture.subchannel.capacity).toBe(0);
    await fixture.open();
    fixture.last.capacity = 7;
    expect(fixture.subchannel.capacity).toBe(7);
  });

  it('reads the capacity of its connection at every pick, or is notified of changes', () => {
    const asked = subchannel(0);
    slotsOf(asked).capacity = 1;
    asked.start(0);
    expect(asked.hasRoom).toBe(false);
    slotsOf(asked).capacity = 2;
    expect(asked.hasRoom).toBe(true);

    const told = subchannel(1);
    const slots = new WatchedSlots();
    told.connection = slots;
    told.start(0);
    expect(told.hasRoom).toBe(true);
    slots.setCapacity(1);
    expect(told.hasRoom).toBe(false);
    slots.setCapacity(2);
    expect(told.hasRoom).toBe(true);
    told.setProbation(1);
    told.start(0);
    expect(told.hasRoom).toBe(false);
    told.setProbation(undefined);
    slots.setCapacity(3);
    expect(told.hasRoom).toBe(true);
  });

  it('ignores the capacity of a connection that was replaced', () => {
    const one = subchannel(1);
    const old = new WatchedSlots();
    one.connection = old;
    one.connection = new WatchedSlots();
    old.setCapacity(0);
    expect(one.hasRoom).toBe(true);
    one.connection = undefined;
    expect(one.hasRoom).toBe(false);
  });

  it('tells trackers with the next call how many successes they ignored', async () => {
    const unheard: number[] = [];
    const completed = (_outcome: Outcome, _ms: number, _unanswered: number, count: number) => unheard.push(count);
    const fixture = await readyFixture({ tracker: { completed, ignoresSuccess: true } });
    const running = fixture.call();
    for (let call = 0; call < 8; call++) fixture.call().end();
    fixture.call().end(outcomes.status);
    fixture.call().end();
    fixture.call().end(outcomes.cancelled);
    running.end(outcomes.reset);
    expect(unheard).toEqual([0, 7, 1, 0]);
  });

  it('frees no place on probation when earlier calls end, also where all trackers ignore successes', async () => {
    const fixture = await readyFixture({ tracker: { completed: () => {}, ignoresSuccess: true } });
    fixture.call().end();
    const before = [fixture.call(), fixture.call()];
    fixture.clock.advance(10);
    fixture.subchannel.setProbation(1);
    fixture.call();
    before[0]?.end(outcomes.status);
    before[1]?.end();
    expect(fixture.subchannel.hasRoom).toBe(false);
  });

  it('counts the calls that a load of calls in flight would count', async () => {
    const fixture = await readyFixture({ load: inFlight()() });
    const first = fixture.call();
    fixture.call();
    expect([fixture.subchannel.cost(0), fixture.subchannel.load.value(0)]).toEqual([3, 3]);
    first.end();
    expect([fixture.subchannel.cost(0), fixture.subchannel.load.value(0)]).toEqual([2, 2]);
  });

  it('continues when a load throws, and reports it', async () => {
    const broken = (): never => {
      throw new Error('broken');
    };
    const fixture = new SubchannelFixture({
      load: { decays: false, start: broken, end: broken, value: () => 1 },
    });
    await fixture.open();
    fixture.call().end();
    expect(fixture.subchannel).toMatchObject({ started: 1, inFlight: 0 });
    fixture.last.end(new Error('reset'));
    await fixture.clock.advanceAsync(200);
    expect(fixture.state).toBe('ready');
    fixture.subchannel.destroy();
    expect(fixture.state).toBe('closed');
    expect(fixture.warnings).toEqual(['a load threw']);
  });

  it('pings its connection, and rejects without one', async () => {
    const fixture = new SubchannelFixture();
    const { signal } = new AbortController();
    await expect(fixture.subchannel.ping(signal)).rejects.toThrow('10.0.0.1:80 has no connection');
    await fixture.open();
    await fixture.subchannel.ping(signal);
    fixture.last.pingError = new Error('no answer');
    await expect(fixture.subchannel.ping(signal)).rejects.toThrow('no answer');
  });

  it('U8: new data for the endpoint change nothing else', async () => {
    const fixture = await readyFixture();
    fixture.subchannel.endpoint = createEndpoint({ address: '10.0.0.1', port: 80, zone: 'b', weight: 3 });
    await fixture.clock.advanceAsync(60_000);
    expect(fixture.fake.attempts).toHaveLength(1);
  });
});

describe('the cost of a call', () => {
  it('is the value of the load, with reports and without, whatever happened before', () => {
    const rng = seededRng(3);
    const factory = relativeLatency();
    const loads = new Set<Load>();
    const all = Array.from({ length: 5 }, (_, index) =>
      subchannel(index, () => {
        const load = factory({ loads });
        loads.add(load);
        return load;
      }),
    );
    const costs = new Set<number>();
    let nowMs = 0;
    for (let step = 0; step < 4_000; step++) {
      nowMs += rng.next() * 40;
      const one = all[(rng.next() * all.length) | 0] as (typeof all)[0];
      if (rng.next() < 0.5 || one.inFlight === 0) one.start(nowMs);
      else {
        const outcome = rng.next() < 0.2 ? outcomes.status : outcomes.success;
        // The later ones are slower.
        one.end(nowMs, nowMs, outcome, nowMs - rng.next() * 20 * all.indexOf(one));
      }
      if (step > 2_000) one.reported({ namedMetrics: { evenkeel_in_flight: (rng.next() * 30) | 0 } }, nowMs);
      for (const { load, inFlight, ...each } of all.map((a) => ({
        load: a.load,
        inFlight: a.inFlight,
        cost: a.cost(nowMs),
      }))) {
        expect(each.cost).toBe(load.value(nowMs));
        expect(each.cost).toBeGreaterThanOrEqual(step > 2_000 ? 1 : 100 * (inFlight + 1));
        costs.add(each.cost);
      }
    }
    expect(costs.size).toBeGreaterThan(100);
  });
});
