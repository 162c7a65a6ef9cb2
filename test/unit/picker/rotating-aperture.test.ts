import { describe, expect, it } from 'vitest';
import { type Outcome, outcomes } from '../../../src/endpoint/outcome.js';
import { inFlight } from '../../../src/load/in-flight.js';
import { relativeLatency } from '../../../src/load/relative-latency.js';
import { p2c } from '../../../src/picker/p2c.js';
import type { Picker, PickerFactory } from '../../../src/picker/picker.js';
import { rotatingAperture } from '../../../src/picker/rotating-aperture.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import {
  KnownLoads,
  pickSet,
  request,
  slotsOf,
  subchannel,
  subchannels,
  type TestSubchannel,
} from '../../support/fixtures/pick-set.js';

/** One endpoint is at the front of the ring for this long, in ms. */
const FRONT_MS = 331;

/** A client of endpoints that take as long as `tookMs` says, on a clock of its own. */
class Client {
  readonly known = new KnownLoads();
  readonly load = relativeLatency();
  readonly factory: PickerFactory;
  readonly rng;
  members: TestSubchannel[];
  picker: Picker;
  nowMs = 1_000;
  tookMs: (member: TestSubchannel) => number = () => 2;
  outcomeOf: (member: TestSubchannel) => Outcome = () => outcomes.success;
  readonly #request = request();

  constructor(count: number, seed = 1, factory = rotatingAperture()) {
    this.factory = factory;
    this.rng = seededRng(seed);
    this.members = subchannels(count, this.load, this.known);
    this.picker = this.factory(pickSet(this.members), undefined, { rng: this.rng });
  }

  rebuild(members: readonly TestSubchannel[], all: readonly TestSubchannel[] = members, weights?: number[]): void {
    this.picker = this.factory(pickSet(members, weights, all), this.picker, { rng: this.rng });
  }

  start(avoid?: ReadonlySet<TestSubchannel>): TestSubchannel {
    this.#request.nowMs = this.nowMs;
    this.#request.avoid = avoid;
    const picked = this.picker.pick(this.#request) as TestSubchannel;
    picked.start(this.nowMs);
    return picked;
  }

  end(member: TestSubchannel, startedMs: number): void {
    member.end(startedMs, this.nowMs, this.outcomeOf(member), startedMs);
  }

  /** One call after the other, each after `pauseMs`. Returns how many each endpoint had. */
  run(calls: number, pauseMs = 0): Map<TestSubchannel, number> {
    const counts = new Map<TestSubchannel, number>(this.members.map((member) => [member, 0]));
    for (let call = 0; call < calls; call++) {
      this.nowMs += pauseMs;
      const startedMs = this.nowMs;
      const member = this.start();
      counts.set(member, (counts.get(member) as number) + 1);
      this.nowMs += this.tookMs(member);
      this.end(member, startedMs);
    }
    return counts;
  }
}

const busiest = (counts: ReadonlyMap<unknown, number>): number => {
  const values = [...counts.values()];
  return (Math.max(...values) * values.length) / values.reduce((sum, value) => sum + value, 0);
};

const seeds = Array.from({ length: 20 }, (_, index) => index + 1);

/** One endpoint is slow for ten seconds: its part of an even share from 15 to 30 s later on. */
function shareAfterSlowness(client: Client, everyMs: number): number {
  const [slow] = client.members as [TestSubchannel];
  let running: { readonly member: TestSubchannel; readonly startedMs: number; readonly dueMs: number }[] = [];
  const share = (seconds: number, slowMs: number): number => {
    let got = 0;
    const calls = (seconds * 1_000) / everyMs;
    for (let call = 0; call < calls; call++) {
      client.nowMs += everyMs;
      for (const { member, startedMs, dueMs } of running) if (dueMs <= client.nowMs) client.end(member, startedMs);
      running = running.filter(({ dueMs }) => dueMs > client.nowMs);
      const member = client.start();
      if (member === slow) got++;
      running.push({ member, startedMs: client.nowMs, dueMs: client.nowMs + (member === slow ? slowMs : 15) });
    }
    return (got * client.members.length) / calls;
  };
  share(60, 15);
  share(10, 200);
  share(15, 15);
  return share(15, 15);
}

describe('rotating aperture', () => {
  it.each([
    [5, 100, 1.0],
    [5, 1_000, 1.6],
    [5, 5_000, 1.3],
    [10, 1_000, 2.2],
    [10, 5_000, 1.3],
  ])(
    '%i endpoints: of the first %i calls of one caller, the busiest has at most %f times the mean',
    (count, calls, most) => {
      for (const seed of seeds) expect(busiest(new Client(count, seed).run(calls))).toBeLessThanOrEqual(most);
    },
  );

  it.each([
    [100, 2.5],
    [1_000, 1.6],
  ])(
    'of any %i calls of a caller that has run for long, the busiest of five has at most %f times the mean',
    (calls, most) => {
      for (const seed of seeds) {
        const client = new Client(5, seed);
        client.run(30_000 + seed * 77);
        expect(busiest(client.run(calls))).toBeLessThanOrEqual(most);
      }
    },
  );

  it.each([1, 3])('spreads a thousand processes of %i calls like chance', (calls) => {
    const counts = new Map<number, number>();
    for (let seed = 1; seed <= 1_000; seed++) {
      const client = new Client(5, seed);
      [...client.run(calls).values()].forEach((count, index) => {
        counts.set(index, (counts.get(index) ?? 0) + count);
      });
    }
    // Four standard deviations of a share of a fifth in 1,000 draws.
    for (const count of counts.values()) expect(Math.abs(count / calls - 200)).toBeLessThan(4 * Math.sqrt(160));
  });

  it.each([2_500, 5_000, 10_000, 40_000, 5 * FRONT_MS * 2])(
    'spreads calls at an interval of %i ms, whatever the ring does meanwhile',
    (pauseMs) => {
      const client = new Client(5);
      client.tookMs = () => 0;
      client.run(100);
      expect(busiest(client.run(100, pauseMs))).toBe(1);
    },
  );

  it('sends a call to the first endpoint from the front on that has none of its calls', () => {
    const client = new Client(6);
    const running = Array.from({ length: 6 }, () => client.start());
    expect(new Set(running).size).toBe(6);
    for (let call = 0; call < 300; call++) running.push(client.start());
    const counts = client.members.map(({ inFlight: calls }) => calls);
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
  });

  it.each([4, 31, 32, 33, 64, 100, 1_000])(
    'finds each of %i endpoints that is idle, however many calls run',
    (count) => {
      const client = new Client(count);
      const running = Array.from({ length: count }, () => client.start());
      expect(new Set(running).size).toBe(count);
      // All are busy; then one after the other has nothing to do.
      for (const idle of [...client.members].reverse()) {
        client.nowMs += 1;
        client.end(idle, client.nowMs - 20);
        expect(client.start() === idle).toBe(true);
      }
    },
  );

  it('finds an idle endpoint after the set has grown or shrunk while calls run', () => {
    const client = new Client(40);
    const all = client.members;
    for (let call = 0; call < 40; call++) client.start();
    client.rebuild(all.slice(0, 10));
    // Of those that left, too, calls end: this must not hide any that stay.
    for (const left of all.slice(10)) client.end(left, client.nowMs);
    client.end(all[7] as TestSubchannel, client.nowMs);
    expect(client.start() === all[7]).toBe(true);
    client.rebuild(all);
    const picked = new Set(Array.from({ length: 30 }, () => client.start()));
    expect(picked).toEqual(new Set(all.slice(10)));
  });

  it('finds idle endpoints if an application puts together two of its pickers over the same loads', () => {
    const client = new Client(12);
    const pickers = [client.members.slice(0, 6), client.members.slice(6)].map((half) =>
      client.factory(pickSet(half), undefined, { rng: client.rng }),
    );
    const counts = new Map(client.members.map((member) => [member, 0]));
    for (let call = 0; call < 12_000; call++) {
      client.picker = pickers[call % 2] as Picker;
      const member = client.start();
      counts.set(member, (counts.get(member) as number) + 1);
      client.nowMs += 2;
      client.end(member, client.nowMs - 2);
    }
    expect(busiest(counts)).toBeLessThan(1.5);
  });

  it.each([-3_600_000, 3_600_000])('turns on, and finds bad endpoints, when the clock jumps by %i ms', (jumpMs) => {
    const client = new Client(6);
    const failing = client.members[2] as TestSubchannel;
    const fail = (member: TestSubchannel): Outcome => (member === failing ? outcomes.status : outcomes.success);
    client.outcomeOf = fail;
    client.start(); // another call runs all the time: where calls overlap, the client learns its place
    client.run(3_000);
    const slow = client.start();
    const startedMs = client.nowMs;
    client.nowMs += jumpMs;
    client.outcomeOf = () => outcomes.success;
    client.end(slow, startedMs);
    client.run(30_000);
    // The endpoint after the busy one has its turns, too.
    expect(busiest(client.run(5_000))).toBeLessThanOrEqual(2.2);
    client.tookMs = (member) => (member === slow ? 200 : 20);
    client.outcomeOf = fail;
    client.run(3_000);
    const counts = client.run(1_000);
    expect(counts.get(slow)).toBeLessThan(40);
    expect(counts.get(failing)).toBeLessThan(40);
  });

  it('has one ring for all clients, by address and port, whatever else they know of the endpoints', () => {
    /** The endpoints in the order of the turns that a new client takes, from the same one on. */
    const turns = (seed: number, order: readonly number[], more: object): string[] => {
      const client = new Client(0, seed);
      client.members = order.map((index) =>
        subchannel({ address: `10.0.0.${index}`, ...more }, client.load, client.known),
      );
      client.rebuild(client.members);
      const seen = [...Array(order.length)].map(() => client.start().endpoint.address);
      const first = seen.indexOf('10.0.0.1');
      return [...seen.slice(first), ...seen.slice(0, first)];
    };
    const ring = turns(1, [1, 2, 3, 4, 5, 6, 7], {});
    expect(turns(2, [7, 3, 1, 2, 6, 5, 4], { uid: 'a' })).toEqual(ring);
    expect(turns(3, [2, 1, 3, 4, 7, 6, 5], { otherAddress: 'fd00::1' })).toEqual(ring);
    expect(ring).not.toEqual(['10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.4', '10.0.0.5', '10.0.0.6', '10.0.0.7']);
  });

  it('skips endpoints that are not ready, full or to be avoided, and uses those to be avoided if there are no others', () => {
    const client = new Client(5);
    const [gone, full, avoided, ...others] = client.members as [TestSubchannel, TestSubchannel, ...TestSubchannel[]];
    client.rebuild(client.members.slice(1), client.members);
    slotsOf(full).capacity = 0;
    const avoid = new Set([avoided as TestSubchannel]);
    for (let call = 0; call < 200; call++) {
      client.nowMs += 97;
      expect(others).toContain(client.start(avoid));
    }
    for (const other of others) slotsOf(other).capacity = 0;
    expect(client.start(avoid)).toBe(avoided);
    expect(gone.inFlight).toBe(0);
  });

  it('gives a slow endpoint a small part of its share, and all of it once it is fast again', () => {
    const client = new Client(6);
    const slow = client.members[3] as TestSubchannel;
    client.tookMs = (member) => (member === slow ? 200 : 20);
    client.run(3_000);
    expect(client.run(1_000).get(slow)).toBeLessThan(40);
    client.tookMs = () => 20;
    client.run(6_000);
    expect(client.run(1_200).get(slow)).toBeGreaterThan(160);
  });

  it('sends fast endpoints more calls where most are slow: they are not taken for ones that answer wrongly', () => {
    const client = new Client(10);
    const isFast = (member: TestSubchannel): boolean => client.members.indexOf(member) < 4;
    const counts = { fast: 0, slow: 0 };
    let running: { readonly member: TestSubchannel; readonly startedMs: number; readonly dueMs: number }[] = [];
    for (let call = 0; call < 20_000; call++) {
      client.nowMs += 6;
      for (const { member, startedMs, dueMs } of running) if (dueMs <= client.nowMs) client.end(member, startedMs);
      running = running.filter(({ dueMs }) => dueMs > client.nowMs);
      const member = client.start();
      running.push({ member, startedMs: client.nowMs, dueMs: client.nowMs + (isFast(member) ? 20 : 90) });
      counts[isFast(member) ? 'fast' : 'slow']++;
    }
    expect(counts.fast / 4).toBeGreaterThan((2 * counts.slow) / 6);
  });

  it('gives a slow endpoint its call where the others have so many that it would take longer there', () => {
    const client = new Client(5);
    const [slow, ...others] = client.members as [TestSubchannel, ...TestSubchannel[]];
    client.tookMs = (member) => (member === slow ? 100 : 10);
    client.run(2_000);
    const counts = new Map<TestSubchannel, number>();
    for (let call = 0; call < 200; call++) {
      const member = client.start();
      counts.set(member, (counts.get(member) ?? 0) + 1);
    }
    // It takes ten times as long, so a tenth of the calls that another has.
    const most = Math.max(...others.map((member) => counts.get(member) ?? 0));
    expect(counts.get(slow)).toBeGreaterThan(most / 20);
    expect(counts.get(slow)).toBeLessThan(most / 4);
  });

  it('sends an endpoint that fails at once next to no calls, and sends it calls again once it works', () => {
    const client = new Client(6);
    const failing = client.members[2] as TestSubchannel;
    client.tookMs = (member) => (member === failing ? 1 : 20);
    client.outcomeOf = (member) => (member === failing ? outcomes.status : outcomes.success);
    client.run(200);
    expect(client.run(1_000).get(failing)).toBeLessThanOrEqual(5);
    client.tookMs = () => 20;
    client.outcomeOf = () => outcomes.success;
    client.run(6_000);
    expect(client.run(1_200).get(failing)).toBeGreaterThan(150);
  });

  it.each([
    [5, 20],
    [5, 5],
    [10, 20],
  ])(
    '%i endpoints, a call every %i ms: one that was slow for ten seconds soon has its share again',
    (count, everyMs) => {
      // How soon the slow one is tried again is a matter of chance.
      const seeds = 50;
      let sum = 0;
      for (let seed = 1; seed <= seeds; seed++) sum += shareAfterSlowness(new Client(count, seed), everyMs);
      expect(sum / seeds).toBeGreaterThan(0.7);
    },
  );

  it('keeps its place on the ring when the set grows and shrinks', () => {
    const client = new Client(10);
    client.run(2_000);
    const added = Array.from({ length: 5 }, (_, index) => subchannel(`10.1.0.${index}`, client.load, client.known));
    const more = [...client.members, ...added];
    client.members = more;
    client.rebuild(more);
    client.run(500);
    expect(busiest(client.run(5_000))).toBeLessThanOrEqual(1.3);
    client.members = more.slice(0, 10);
    client.rebuild(client.members);
    client.run(500);
    expect(busiest(client.run(5_000))).toBeLessThanOrEqual(1.3);
  });

  it.each([
    ['two endpoints', 2, relativeLatency(), undefined],
    ['three endpoints', 3, relativeLatency(), undefined],
    ['weights that differ', 6, relativeLatency(), [1, 1, 1, 2, 2, 2]],
    ['a load that has no latencies', 6, inFlight(), undefined],
  ] as const)('is p2c with %s', (_, count, load, weights) => {
    const picks = (factory: PickerFactory): number[] => {
      const members = subchannels(count, load, new KnownLoads());
      const picker = factory(pickSet(members, weights && [...weights]), undefined, { rng: seededRng(3) });
      return Array.from({ length: 50 }, () => {
        const picked = picker.pick(request()) as TestSubchannel;
        picked.start(0);
        return members.indexOf(picked);
      });
    };
    expect(picks(rotatingAperture())).toEqual(picks(p2c()));
  });

  it('gives each of three endpoints 33 % in every round of 100 calls, in each of three clients', () => {
    for (const seed of [1, 2, 3]) {
      const client = new Client(3, seed);
      for (let round = 0; round < 20; round++) {
        for (const count of client.run(100).values()) expect(Math.abs(count - 33.3)).toBeLessThan(1);
      }
    }
  });
});
