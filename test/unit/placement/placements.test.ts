import { describe, expect, it } from 'vitest';
import { inFlight } from '../../../src/load/in-flight.js';
import { shortestExpectedDelay } from '../../../src/picker/least-loaded.js';
import { Placements } from '../../../src/placement/placements.js';
import {
  type ConnectionLeaving,
  type PlacingOptions,
  resolvePlacingOptions,
} from '../../../src/placement/placing-options.js';
import { conditions } from '../../../src/stage/conditions.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import { BalancerFixture } from '../../support/fixtures/balancer-fixture.js';

interface Event {
  readonly what: 'told' | 'finished' | 'cut';
  readonly atMs: number;
  readonly address: string;
  readonly leaving?: ConnectionLeaving;
}

/** What one connection does when it is told or asked to close. */
interface Manner {
  readonly listens?: boolean;
  /** Ends when it is told. */
  readonly moves?: boolean;
  /** Does not close after `finish`. */
  readonly stubborn?: boolean;
  readonly throws?: boolean;
  readonly movesItself?: boolean;
}

async function world(options: PlacingOptions<never> = {}, drainTimeoutMs = 30_000) {
  const fixture = new BalancerFixture({
    pool: { drainTimeoutMs },
    picker: shortestExpectedDelay(),
    load: inFlight(),
    stages: [conditions()],
  });
  const { clock, balancer } = fixture;
  const placements = new Placements({
    balancer,
    clock,
    rng: seededRng(7),
    options: resolvePlacingOptions(options, drainTimeoutMs),
  });
  const events: Event[] = [];
  const startMs = clock.now();
  /** Opens a connection where the balancer wants it. */
  const place = (manner: Manner = {}): string => {
    const lease = balancer.pick();
    if (lease === undefined) throw new Error('nowhere to go');
    const { address } = lease.endpoint;
    const note = (what: Event['what'], leaving?: ConnectionLeaving): void => {
      events.push({ what, address, atMs: clock.now() - startMs, ...(leaving && { leaving }) });
    };
    const end = (): void => {
      release();
      lease.end({ kind: 'success' });
    };
    const release = placements.hold(lease, {
      leave: (leaving) => {
        if (!manner.listens && !manner.moves && !manner.throws) return false;
        note('told', leaving);
        if (manner.throws) throw new Error('it threw');
        if (manner.moves) end();
        return true;
      },
      finish: () => {
        note('finished');
        if (!manner.stubborn) end();
      },
      cut: () => {
        note('cut');
        end();
      },
      ...(manner.movesItself && { movesItself: true }),
    });
    return address;
  };
  const counts = (): Record<string, number> =>
    Object.fromEntries(
      balancer
        .snapshot()
        .endpoints.filter(({ state }) => state === 'ready')
        .map(({ address, inFlight }) => [address.split(':')[0], inFlight]),
    );
  /** Time passes, and what follows from it happens. */
  const pass = async (ms: number, stepMs = 100): Promise<void> => {
    for (let left = ms; left > 0; left -= stepMs) {
      clock.advance(Math.min(left, stepMs));
      await settle();
    }
  };
  return { fixture, clock, balancer, placements, events, place, counts, pass, startMs };
}

const terminating = (address: string) => ({ address, port: 80, conditions: { ready: false, terminating: true } });
const of = (events: readonly Event[], what: Event['what']) => events.filter((event) => event.what === what);

describe('placement', () => {
  it('puts connections where this process has the fewest', async () => {
    const { fixture, place, counts } = await world();
    await fixture.publish(...Array.from({ length: 10 }, (_, index) => `10.0.0.${index + 1}`));
    for (let made = 0; made < 20; made++) place();
    expect(new Set(Object.values(counts()))).toEqual(new Set([2]));
  });

  it('fills a new endpoint until it has as many as the others', async () => {
    const { fixture, place, counts } = await world();
    const nine = Array.from({ length: 9 }, (_, index) => `10.0.0.${index + 1}`);
    await fixture.publish(...nine);
    for (let made = 0; made < 90; made++) place();
    await fixture.publish(...nine, '10.0.0.10');
    expect(Array.from({ length: 10 }, () => place())).toEqual(Array(10).fill('10.0.0.10'));
    expect(new Set(Object.values(counts()))).toEqual(new Set([10]));
  });
});

describe('an endpoint that leaves', () => {
  async function leaving(options: PlacingOptions<never>, manner: Manner, drainTimeoutMs?: number) {
    const found = await world(options, drainTimeoutMs);
    await found.fixture.publish('10.0.0.1');
    for (let made = 0; made < 20; made++) found.place(manner);
    await found.fixture.publish('10.0.0.2');
    return found;
  }

  it('notifies its connections one by one within its time, each with the time until which it may stay', async () => {
    const { events, pass } = await leaving({ leaveSpreadMs: 10_000 }, { listens: true });
    await pass(10_000);
    const told = of(events, 'told');
    expect(told).toHaveLength(20);
    // Each in its own twentieth of the time.
    expect(told.map(({ atMs }) => Math.floor(Math.max(0, atMs - 1) / 500))).toEqual([...Array(20).keys()]);
    for (const { atMs, leaving } of told) {
      expect(leaving).toMatchObject({ reason: 'endpoint', endpoint: { address: '10.0.0.1' } });
      expect(Math.abs((leaving?.untilMs ?? 0) - 1_000 - (atMs + 19_000))).toBeLessThanOrEqual(100);
    }
    expect(of(events, 'finished')).toHaveLength(0);
  });

  it('closes connections that have not left, one by one as well, the last when the drain timeout is over', async () => {
    const { events, pass } = await leaving({ leaveSpreadMs: 10_000 }, { listens: true });
    await pass(18_900);
    expect(of(events, 'finished')).toHaveLength(0);
    await pass(10_100);
    const closed = of(events, 'finished').map(({ atMs }) => atMs);
    expect(closed).toHaveLength(20);
    expect(Math.min(...closed)).toBeGreaterThanOrEqual(19_000);
    expect(Math.max(...closed)).toBeLessThanOrEqual(29_100);
    expect(of(events, 'cut')).toHaveLength(0);
  });

  it('does not close connections that left when they were notified', async () => {
    const { events, pass, placements } = await leaving({}, { moves: true });
    await pass(40_000, 500);
    expect([of(events, 'told').length, of(events, 'finished').length, placements.size]).toEqual([20, 0, 0]);
  });

  it('closes connections of an application that does not listen late', async () => {
    const { events, pass } = await leaving({}, {});
    await pass(18_900);
    expect(events).toEqual([]);
    await pass(10_100);
    expect(of(events, 'finished')).toHaveLength(20);
  });

  it('closes connections at their turn with closeLeaving', async () => {
    const { events, pass } = await leaving({ closeLeaving: true, leaveSpreadMs: 5_000 }, { listens: true });
    await pass(5_000);
    expect([of(events, 'told').length, of(events, 'finished').length]).toEqual([0, 20]);
  });

  it('closes connections at their turn that move by themselves, unless there is a listener', async () => {
    const silent = await leaving({ leaveSpreadMs: 5_000 }, { movesItself: true });
    await silent.pass(5_000);
    expect([of(silent.events, 'told').length, of(silent.events, 'finished').length]).toEqual([0, 20]);
    const heard = await leaving({ leaveSpreadMs: 5_000 }, { movesItself: true, listens: true });
    await heard.pass(5_000);
    expect([of(heard.events, 'told').length, of(heard.events, 'finished').length]).toEqual([20, 0]);
  });

  it('cuts a connection that does not close', async () => {
    const { events, pass } = await leaving({ closeLeaving: true, leaveSpreadMs: 0 }, { stubborn: true });
    await pass(4_900);
    expect(of(events, 'cut')).toHaveLength(0);
    await pass(200);
    expect(of(events, 'cut')).toHaveLength(20);
  });

  it('keeps its connections without a drain timeout, and notifies them', async () => {
    const { events, pass } = await leaving({}, { listens: true }, Number.POSITIVE_INFINITY);
    await pass(120_000, 1_000);
    expect([of(events, 'told').length, of(events, 'finished').length]).toEqual([20, 0]);
    expect(events[0]?.leaving?.untilMs).toBe(Number.POSITIVE_INFINITY);
  });

  it('continues if the application throws', async () => {
    const { events, pass, fixture } = await leaving({}, { throws: true });
    await pass(30_000);
    expect([of(events, 'told').length, of(events, 'finished').length]).toEqual([20, 20]);
    expect(fixture.warnings).toContain('onLeaving threw');
  });

  it.each([30_000, Number.POSITIVE_INFINITY])(
    'keeps its connections when it returns, drain timeout %d',
    async (drain) => {
      const { events, pass, fixture, placements } = await leaving({ leaveSpreadMs: 10_000 }, { listens: true }, drain);
      await pass(3_000);
      const told = of(events, 'told').length;
      expect(told).toBeGreaterThan(0);
      await fixture.publish('10.0.0.1', '10.0.0.2');
      await pass(60_000, 500);
      // Those whose turn came before it was noticed.
      expect(of(events, 'told').length).toBeLessThanOrEqual(told + 2);
      expect([of(events, 'finished').length, placements.size]).toEqual([0, 20]);
      // And it is heard again.
      await fixture.publish(terminating('10.0.0.1'), '10.0.0.2');
      await pass(10_000);
      expect(of(events, 'told').length).toBeGreaterThanOrEqual(told + 20);
    },
  );

  it('notifies a connection that was opened while the endpoint began to leave', async () => {
    const { balancer, fixture, placements, pass } = await world({ leaveSpreadMs: 2_000 });
    await fixture.publish('10.0.0.1');
    const lease = balancer.pick();
    if (lease === undefined) throw new Error('nowhere to go');
    await fixture.publish('10.0.0.2');
    const told: ConnectionLeaving[] = [];
    placements.hold(lease, { leave: (leaving) => told.push(leaving) > 0, finish: () => {}, cut: () => {} });
    await pass(2_000);
    expect(told).toMatchObject([{ reason: 'endpoint' }]);
  });

  it('tells all that have not had their turn at once, when the client is closed', async () => {
    const { events, placements, fixture, pass } = await leaving({ leaveSpreadMs: 20_000 }, { listens: true });
    await pass(5_000);
    const told = of(events, 'told').length;
    expect(told).toBeLessThan(10);
    placements.close();
    void fixture.balancer.close();
    await pass(1);
    expect(of(events, 'told')).toHaveLength(placements.size);
    expect(of(events, 'told').at(-1)?.leaving?.reason).toBe('close');
  });
});

describe('a client that is closed', () => {
  it('notifies all at once, and closes them when the time is over', async () => {
    const { fixture, balancer, placements, events, place, pass } = await world();
    await fixture.publish('10.0.0.1', '10.0.0.2');
    for (let made = 0; made < 4; made++) place({ listens: true });
    placements.close();
    void balancer.close();
    await pass(100);
    expect(of(events, 'told').map(({ leaving }) => leaving?.reason)).toEqual(Array(4).fill('close'));
    await pass(30_000, 500);
    expect(of(events, 'finished')).toHaveLength(4);
  });

  it('checks no longer whether its connections are spread evenly, even if one is opened late', async () => {
    const { fixture, balancer, placements } = await world({ rebalance: {} });
    await fixture.publish('10.0.0.1');
    const lease = balancer.pick();
    if (lease === undefined) throw new Error('nowhere to go');
    placements.close();
    const before = fixture.clock.timers;
    placements.hold(lease, { leave: () => true, finish: () => {}, cut: () => {} });
    expect(fixture.clock.timers).toBe(before);
  });

  it('can cut all', async () => {
    const { fixture, placements, events, place } = await world();
    await fixture.publish('10.0.0.1', '10.0.0.2');
    for (let made = 0; made < 4; made++) place();
    placements.cut();
    expect([of(events, 'cut').length, placements.size]).toEqual([4, 0]);
  });
});

describe('rebalancing', () => {
  const five = Array.from({ length: 5 }, (_, index) => `10.0.0.${index + 1}`);
  const ten = Array.from({ length: 10 }, (_, index) => `10.0.0.${index + 1}`);

  /** 200 connections on five endpoints, then ten; each connection that goes comes back at once. */
  async function scaleOut(options: PlacingOptions<never>, manner: Manner = {}) {
    const found = await world(options);
    await found.fixture.publish(...five);
    for (let made = 0; made < 200; made++) found.place(manner);
    await found.fixture.publish(...ten);
    let seen = 0;
    const run = async (ms: number): Promise<void> => {
      for (let left = ms; left > 0; left -= 100) {
        await found.pass(100);
        for (const { what } of found.events.slice(seen)) if (what !== 'told' || manner.moves) found.place(manner);
        seen = found.events.length;
      }
    };
    return { ...found, run };
  }
  const ratio = (counts: Record<string, number>): number => {
    const all = Object.values(counts);
    return Math.max(...all) / (all.reduce((sum, count) => sum + count, 0) / all.length);
  };

  it('does not happen unless asked for', async () => {
    const { events, run, counts } = await scaleOut({});
    await run(600_000);
    expect(events).toEqual([]);
    expect(ratio(counts())).toBe(2);
  });

  it('moves no more than needed, at the given rate, and stops', async () => {
    const { events, run, counts } = await scaleOut({ rebalance: { ratioPerMinute: 0.25 } });
    await run(60_000);
    // A quarter of 200, the first after a pause that makes sure.
    expect(events.length).toBeGreaterThan(35);
    expect(events.length).toBeLessThan(65);
    await run(60_000);
    expect(ratio(counts())).toBeLessThanOrEqual(1.2);
    // Five endpoints with 40 that may keep 24 each.
    expect(events.length).toBeGreaterThanOrEqual(80);
    expect(events.length).toBeLessThanOrEqual(88);
    const moved = events.length;
    await run(600_000);
    expect(events).toHaveLength(moved);
    expect(new Set(events.map(({ what }) => what))).toEqual(new Set(['finished']));
  });

  it('moves a tenth per minute by default', async () => {
    const { events, run } = await scaleOut({ rebalance: {} });
    await run(120_000);
    expect(events.length).toBeGreaterThan(30);
    expect(events.length).toBeLessThan(50);
  });

  it('leaves it to the application if that listens, and closes connections that stay too long', async () => {
    const moving = await scaleOut({ rebalance: { ratioPerMinute: 1 } }, { moves: true });
    await moving.run(120_000);
    expect(ratio(moving.counts())).toBeLessThanOrEqual(1.2);
    expect(of(moving.events, 'finished')).toHaveLength(0);
    expect(moving.events[0]?.leaving).toMatchObject({ reason: 'rebalance' });
    const deaf = await scaleOut({ rebalance: { ratioPerMinute: 1 } }, { listens: true });
    await deaf.run(120_000);
    expect(of(deaf.events, 'finished').length).toBe(of(deaf.events, 'told').length);
    expect(deaf.events.length).toBeLessThanOrEqual(2 * 88);
  });

  it('does nothing that it would undo', async () => {
    const { fixture, place, run, events } = await (async () => {
      const found = await world({ rebalance: { ratioPerMinute: 10 } });
      await found.fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3');
      return { ...found, run: found.pass };
    })();
    // 2, 1, 1: 1.5 times the mean, and no move would change that.
    for (let made = 0; made < 4; made++) place();
    await run(60_000);
    await fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3');
    await run(60_000);
    expect(events).toEqual([]);
  });

  it('waits while an endpoint leaves', async () => {
    const { fixture, events, run } = await scaleOut({ rebalance: { ratioPerMinute: 10 } }, { listens: true });
    await fixture.publish(terminating('10.0.0.1'), ...ten.slice(1));
    await run(15_000);
    expect(new Set(events.map(({ leaving }) => leaving?.reason))).toEqual(new Set(['endpoint']));
  });
});

describe('the options for placement', () => {
  it.each([
    [{ leaveSpreadMs: -1 }, 'leaveSpreadMs'],
    [{ leaveSpreadMs: 31_000 }, 'leaveSpreadMs'],
    [{ closeLeaving: 1 }, 'closeLeaving'],
    [{ onLeaving: true }, 'onLeaving'],
    [{ rebalance: true }, 'rebalance'],
    [{ rebalance: { percent: 10 } }, 'rebalance'],
    [{ rebalance: { ratioPerMinute: 0 } }, 'rebalance.ratioPerMinute'],
    [{ rebalance: { maxToMean: 0.5 } }, 'rebalance.maxToMean'],
  ])('refuse %j by name', (options, name) => {
    expect(() => resolvePlacingOptions(options as never)).toThrow(
      expect.objectContaining({ code: 'EVENKEEL_OPTION', message: expect.stringContaining(name) }),
    );
  });
});
