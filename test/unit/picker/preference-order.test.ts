import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { inFlight } from '../../../src/load/in-flight.js';
import { PLACE, TYPICAL } from '../../../src/load/latency-cell.js';
import type { RuledLoad } from '../../../src/load/load-rule.js';
import { relativeLatency } from '../../../src/load/relative-latency.js';
import { p2c } from '../../../src/picker/p2c.js';
import type { Picker, PickerFactory } from '../../../src/picker/picker.js';
import { preferenceOrder } from '../../../src/picker/preference-order.js';
import { drawIndex } from '../../../src/runtime/rng.js';
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

/** A client of endpoints that take as long as `tookMs` says, on a clock of its own. */
class Client {
  readonly known = new KnownLoads();
  readonly load = relativeLatency();
  readonly factory: PickerFactory;
  readonly rng;
  members: TestSubchannel[];
  picker: Picker;
  nowMs = 1_000;
  /** How long the next calls take. */
  tookMs: (member: TestSubchannel) => number = () => 20;
  readonly #request = request();

  constructor(count: number, seed = 1, factory = preferenceOrder()) {
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

  end(member: TestSubchannel, startedMs: number, outcome = outcomes.success): void {
    member.end(startedMs, this.nowMs, outcome, startedMs);
    this.picker.ended?.(member);
  }

  /** One call after the other. */
  call(outcomeOf: (member: TestSubchannel) => typeof outcomes.success = () => outcomes.success): TestSubchannel {
    const startedMs = this.nowMs;
    const member = this.start();
    this.nowMs += this.tookMs(member);
    this.end(member, startedMs, outcomeOf(member));
    return member;
  }

  /** `calls` calls, `concurrency` at once. */
  run(calls: number, concurrency: number): void {
    const running: { member: TestSubchannel; startedMs: number; endMs: number }[] = [];
    for (let call = 0; call < calls || running.length > 0; ) {
      if (call < calls && running.length < concurrency) {
        const member = this.start();
        running.push({ member, startedMs: this.nowMs, endMs: this.nowMs + this.tookMs(member) });
        call++;
        continue;
      }
      running.sort((a, b) => a.endMs - b.endMs);
      const { member, startedMs, endMs } = running.shift() as (typeof running)[number];
      this.nowMs = Math.max(this.nowMs, endMs);
      this.end(member, startedMs);
    }
  }

  /** The order, as calls that are started together and never sent show it. */
  order(): TestSubchannel[] {
    const order = this.members.map(() => this.start());
    for (const member of order) this.end(member, this.nowMs, outcomes.notStarted);
    return order;
  }

  shares(): number[] {
    return this.members.map(({ started }) => started);
  }
}

describe('preference order', () => {
  it('sends a call to the first endpoint in the order without a call of its own; if all have calls, to the one with fewest', () => {
    const client = new Client(6);
    const order = client.order();
    expect(new Set(order).size).toBe(6);
    const [first, second, third] = order as [TestSubchannel, TestSubchannel, TestSubchannel];
    const startedMs = client.nowMs;
    expect([client.start(), client.start(), client.start()]).toEqual([first, second, third]);
    client.end(second, startedMs);
    expect(client.start()).toBe(second);
    for (const member of order.slice(3)) expect(client.start()).toBe(member);
    // Each has one.
    expect([client.start(), client.start()]).toEqual([first, second]);
    client.end(order[4] as TestSubchannel, startedMs);
    expect(client.start()).toBe(order[4]);
    expect(client.start()).toBe(third);
  });

  it('keeps hundreds of calls within one of each other, whatever order they end in', () => {
    const client = new Client(50);
    const rng = seededRng(3);
    const running = Array.from({ length: 400 }, () => client.start());
    for (let call = 0; call < 5_000; call++) {
      const index = drawIndex(rng, running.length);
      const [member] = running.splice(index, 1) as [TestSubchannel];
      client.end(member, client.nowMs);
      const least = Math.min(...client.members.map((each) => each.inFlight));
      const picked = client.start();
      expect(picked.inFlight - 1).toBe(least);
      running.push(picked);
    }
  });

  it('starts with a different order in each client', () => {
    const orders = Array.from({ length: 20 }, (_, seed) =>
      new Client(5, seed + 1).order().map(({ endpoint }) => endpoint.address),
    );
    expect(new Set(orders.map((order) => order.join())).size).toBeGreaterThan(10);
    expect(new Set(orders.map(([first]) => first)).size).toBe(5);
  });

  it('moves an endpoint that is slower behind the others', () => {
    const client = new Client(6);
    const slow = client.order()[0] as TestSubchannel;
    client.tookMs = (member) => (member === slow ? 100 : 20);
    client.run(2_000, 3);
    expect(client.order().slice(0, 3)).not.toContain(slow);
    const before = slow.started;
    client.run(300, 3);
    expect(slow.started - before).toBeLessThan(15);
  });

  it('keeps the places of endpoints that reconnect, and what it knows about them', () => {
    const client = new Client(8);
    client.run(400, 3);
    const order = client.order();
    const lost = order[1] as TestSubchannel;
    client.rebuild(
      client.members.filter((each) => each !== lost),
      client.members,
    );
    expect(client.start()).toBe(order[0]);
    expect(client.start()).toBe(order[2]);
    client.rebuild(client.members, client.members);
    expect(client.start()).toBe(lost);
  });

  it('finds the order again without the previous picker', () => {
    const client = new Client(8);
    client.run(400, 3);
    const order = client.order();
    client.picker = client.factory(pickSet(client.members), undefined, { rng: seededRng(99) });
    expect(client.order()).toEqual(order);
  });

  it('lets an endpoint that returns to the set in at the edge, and a new one anywhere', () => {
    const places = new Set<number>();
    for (let seed = 1; seed <= 30; seed++) {
      const client = new Client(8, seed);
      const [first] = client.order() as [TestSubchannel];
      client.rebuild(client.members.filter((each) => each !== first));
      client.rebuild(client.members);
      expect(client.order().indexOf(first)).toBe(1);
      const added = subchannel('10.9.9.9', client.load, client.known);
      client.members = [...client.members, added];
      client.rebuild(client.members);
      places.add(client.order().indexOf(added));
    }
    expect(places.size).toBeGreaterThan(5);
  });

  it('sends four calls of a client with few calls to a new endpoint', () => {
    const client = new Client(8);
    const rare = (calls: number): void => {
      for (let call = 0; call < calls; call++) {
        client.call();
        client.nowMs += 400;
      }
    };
    rare(50);
    const added = subchannel('10.9.9.9', client.load, client.known);
    client.members = [...client.members, added];
    client.rebuild(client.members);
    // By one call in nine; the chance of fewer than three is one in a thousand.
    rare(90);
    expect(added.started).toBeGreaterThanOrEqual(3);
  });

  it('does not hold the first responses of a cold endpoint against it', () => {
    const client = new Client(6);
    client.run(500, 3);
    const cold = client.order()[0] as TestSubchannel;
    const added = subchannel('10.9.9.9', client.load, client.known);
    client.members = client.members.map((member) => (member === cold ? added : member));
    client.rebuild(client.members);
    client.tookMs = (member) => (member === added && added.started <= 3 ? 300 : 20);
    // As many calls as endpoints: each has one at any time.
    client.run(600, 6);
    expect(added.started).toBeGreaterThan(5);
    const { numbers, at } = added.load as RuledLoad;
    const others = client.members.filter((member) => member !== added).map(({ load }) => load as RuledLoad);
    for (const other of others) {
      expect(numbers[at + TYPICAL]).toBeCloseTo(other.numbers[other.at + TYPICAL] as number, 1);
    }
  });

  it.each([1, 100])('keeps to weights of 1 : 2 : 4 with %i calls in flight', (concurrency) => {
    const client = new Client(6);
    const weights = [1, 2, 4, 1, 2, 4];
    client.rebuild(client.members, client.members, weights);
    client.run(7_000, concurrency);
    client.shares().forEach((calls, index) => {
      const ratio = calls / 7_000 / ((weights[index] as number) / 14);
      expect(ratio).toBeGreaterThan(0.9);
      expect(ratio).toBeLessThan(1.1);
    });
  });

  it.each([6, 20])('is p2c where weights differ (%i endpoints)', (count) => {
    const sharesBy = (factory: PickerFactory): number[] => {
      const client = new Client(count, 3, factory);
      client.rebuild(
        client.members,
        client.members,
        client.members.map((_, index) => 1 + (index % 3)),
      );
      client.run(500, 10);
      return client.shares();
    };
    expect(sharesBy(preferenceOrder())).toEqual(sharesBy(p2c()));
  });

  it('resumes its order when weights are equal again', () => {
    const client = new Client(6);
    client.run(300, 2);
    const order = client.order();
    client.rebuild(client.members, client.members, [1, 2, 4, 1, 2, 4]);
    client.rebuild(client.members);
    expect(client.order()).toEqual(order);
  });

  it.each([2, 3])('takes turns among %i', (count) => {
    const client = new Client(count);
    client.run(600, 1);
    expect(client.shares()).toEqual(client.members.map(() => 600 / count));
  });

  it('sends an endpoint that fails at once next to no calls, and sends it calls again once it works', () => {
    const client = new Client(5);
    const bad = client.order()[0] as TestSubchannel;
    client.tookMs = (member) => (member === bad ? 1 : 20);
    for (let call = 0; call < 2_000; call++)
      client.call((member) => (member === bad ? outcomes.status : outcomes.success));
    const failed = bad.started;
    expect(failed).toBeLessThan(25);
    client.tookMs = () => 20;
    client.run(10_000, 5);
    expect(bad.started - failed).toBeGreaterThan(1_000);
  });

  it('moves an endpoint that answers far too fast to the end', () => {
    const client = new Client(8);
    client.run(800, 4);
    const liar = client.order()[0] as TestSubchannel;
    const others = client.members.filter((each) => each !== liar);
    client.tookMs = (member) => (member === liar ? 1 : 20);
    client.run(400, 4);
    const before = liar.started;
    client.run(2_000, 4);
    const mean = others.reduce((sum, { started }) => sum + started, 0) / others.length;
    expect(client.order().indexOf(liar)).toBeGreaterThan(3);
    expect(liar.started - before).toBeLessThan(mean);
  });

  it('changes places for it among the few that are in use, not among all', () => {
    const client = new Client(200);
    client.run(2_000, 20);
    const liar = client.order()[0] as TestSubchannel;
    client.tookMs = (member) => (member === liar ? 1 : 20);
    const places = (): unknown[] =>
      client.members.map(({ load }) => {
        const { numbers, at } = load as RuledLoad;
        return numbers[at + PLACE];
      });
    let most = 0;
    for (let call = 0; call < 400; call++) {
      const before = places();
      client.call();
      const after = places();
      most = Math.max(most, before.filter((place, index) => after[index] !== place).length);
    }
    expect(client.order().indexOf(liar)).toBeGreaterThan(30);
    // Twenty calls were in flight, on average, before these.
    expect(most).toBeGreaterThan(3);
    expect(most).toBeLessThan(40);
  });

  it('does not keep a caller of one call at a time with one endpoint for more than 10 s while others are as good', () => {
    const client = new Client(8);
    let sinceMs = client.nowMs;
    let last = client.call();
    let longestMs = 0;
    const used = new Set<TestSubchannel>();
    while (client.nowMs < 600_000) {
      const beganMs = client.nowMs;
      const next = client.call();
      used.add(next);
      if (next !== last) sinceMs = beganMs;
      longestMs = Math.max(longestMs, beganMs - sinceMs);
      last = next;
    }
    expect(longestMs).toBeLessThanOrEqual(10_000);
    expect(used.size).toBe(8);
  });

  it('sends one call in 40 s to a slow endpoint no more often than its share', () => {
    let slowCalls = 0;
    for (let seed = 1; seed <= 30; seed++) {
      const client = new Client(10, seed);
      const slow = client.members[4] as TestSubchannel;
      client.tookMs = (member) => (member === slow ? 200 : 20);
      for (let call = 0; call < 200; call++) {
        client.call();
        client.nowMs += 40_000;
      }
      slowCalls += slow.started;
    }
    // 6,000 calls: a standard deviation of 0.004.
    expect(slowCalls / (30 * 200)).toBeLessThanOrEqual(0.112);
  });

  it('raises endpoints that are not in use, but none that was slow recently', () => {
    const client = new Client(12);
    const rng = seededRng(7);
    const run = (times: number): void => {
      for (let time = 0; time < times; time++) client.run(10, 1 + drawIndex(rng, 4));
    };
    run(5_000);
    expect(Math.min(...client.shares())).toBeGreaterThan(100);
    const slow = client.members[7] as TestSubchannel;
    client.tookMs = (member) => (member === slow ? 200 : 20);
    run(2_000);
    const before = slow.started;
    run(2_000);
    expect(slow.started - before).toBeLessThan(20_000 / 12 / 10);
  });

  it('skips endpoints that are full or to be avoided, and uses those to be avoided if there are no others', () => {
    const client = new Client(5);
    const [first, second, third] = client.order() as [TestSubchannel, TestSubchannel, TestSubchannel];
    slotsOf(first).capacity = 0;
    expect(client.start(new Set([second]))).toBe(third);
    for (const member of client.members) if (member !== second) slotsOf(member).capacity = 0;
    expect(client.start(new Set([second]))).toBe(second);
    slotsOf(second).capacity = 0;
    expect(client.picker.pick(request({ nowMs: client.nowMs }))).toBeUndefined();
    // Room comes without a call's end.
    slotsOf(third).capacity = 5;
    expect(client.start()).toBe(third);
    slotsOf(first).capacity = 5;
    expect(client.start()).toBe(first);
  });

  it('is p2c with a load that has no latencies', () => {
    const members = subchannels(10, inFlight());
    const picker = preferenceOrder()(pickSet(members), undefined, { rng: seededRng(1) });
    const used = new Set<unknown>();
    for (let call = 0; call < 200; call++) used.add(picker.pick(request()));
    expect(used.size).toBe(10);
  });

  it('ignores long polls', () => {
    const client = new Client(6);
    const rng = seededRng(5);
    client.tookMs = () => (rng.next() < 0.05 ? 30_000 : 20);
    client.run(5_000, 6);
    const shares = client.shares();
    expect(Math.min(...shares)).toBeGreaterThan(5_000 / 6 / 5);
  });
});
