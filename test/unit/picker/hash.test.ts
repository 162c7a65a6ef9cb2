import { describe, expect, it } from 'vitest';
import { createEndpoint } from '../../../src/endpoint/endpoint.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { relativeLatency } from '../../../src/load/relative-latency.js';
import { type HashOptions, hash } from '../../../src/picker/hash.js';
import type { Picker } from '../../../src/picker/picker.js';
import { roundRobin } from '../../../src/picker/round-robin.js';
import { maglevTable } from '../../../src/runtime/maglev.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import { pickSet, request, subchannel, subchannels, type TestSubchannel } from '../../support/fixtures/pick-set.js';

const context = { rng: seededRng(1) };
const keys = Array.from({ length: 5_000 }, (_, index) => `customer-${index}`);

/** Where each key goes, with nothing in flight. */
function mapping(picker: Picker): TestSubchannel[] {
  return keys.map((key) => picker.pick(request({ key })) as TestSubchannel);
}

const methods: readonly [string, HashOptions][] = [
  ['auto', {}],
  ['maglev', { method: 'maglev' }],
];

/** The pods of a StatefulSet, of which these were replaced: same name, other address. */
function statefulSet(count: number, replaced: readonly number[] = []): TestSubchannel[] {
  return Array.from({ length: count }, (_, index) => {
    const address = `10.${replaced.includes(index) ? 1 : 0}.0.${index}`;
    return pod({ address, port: 80, uid: `uid of ${address}`, name: `db-${index}` });
  });
}

function pod(init: Parameters<typeof createEndpoint>[0]): TestSubchannel {
  return Object.assign(subchannel(0), { endpoint: createEndpoint(init) });
}

/** The index of the endpoint each key goes to. */
function placesIn(members: readonly TestSubchannel[], options: HashOptions): number[] {
  return mapping(hash(options)(pickSet(members), undefined, context)).map((member) => members.indexOf(member));
}

describe.each(methods)('hash by %s', (_name, options) => {
  it.each([3, 16, 18, 60])(
    'moves about 1 / n of the keys when one of %i endpoints goes, and hardly any other',
    (count) => {
      const members = subchannels(count);
      const before = mapping(hash(options)(pickSet(members), undefined, context));
      const gone = members[1] as TestSubchannel;
      const after = mapping(hash(options)(pickSet(members.filter((member) => member !== gone)), undefined, context));
      let others = 0;
      let moved = 0;
      before.forEach((member, index) => {
        if (member === gone) moved++;
        else if (member !== after[index]) others++;
      });
      expect(moved / keys.length).toBeLessThan(2 / count);
      // Rendezvous moves nothing else; Maglev a few in a hundred (figure 12 of the paper: under 2 % at this size).
      expect(others / keys.length).toBeLessThan(0.03);
    },
  );

  it.each([3, 25])('by name keeps every key of %i pods in place when one is replaced', (count) => {
    const byName: HashOptions = { ...options, placeBy: 'name' };
    expect(placesIn(statefulSet(count, [1]), byName)).toEqual(placesIn(statefulSet(count), byName));
    expect(placesIn(statefulSet(count, [1]), options)).not.toEqual(placesIn(statefulSet(count), options));
  });

  it('by name uses the address of endpoints that have no name', () => {
    const named = (address: string, name?: string) => pod({ address, port: 80, name });
    const members = [
      named('10.0.0.1', 'db-0'),
      named('10.1.0.1', 'db-0'),
      named('10.0.0.2'),
      named('10.0.0.3', 'db-1'),
    ];
    const counts = members.map(() => 0);
    for (const index of placesIn(members, { ...options, placeBy: 'name' }))
      counts[index] = (counts[index] as number) + 1;
    for (const count of counts) expect(count / keys.length).toBeGreaterThan(0.15);
  });

  it('agrees with another process, in whatever order it found the endpoints', () => {
    const members = subchannels(25);
    const here = mapping(hash(options)(pickSet(members), undefined, context));
    const there = mapping(hash(options)(pickSet([...members].reverse()), undefined, { rng: seededRng(9) }));
    expect(there.filter((member, index) => member !== here[index]).length / keys.length).toBeLessThan(0.02);
  });

  it('moves no key for good when an endpoint reconnects', () => {
    const members = subchannels(25);
    const first = hash(options)(pickSet(members), undefined, context);
    const before = mapping(first);
    const lost = members[3] as TestSubchannel;
    const { connection } = lost;
    lost.connection = undefined;
    const ready = members.filter((member) => member !== lost);
    const second = hash(options)(pickSet(ready, undefined, members), first, context);
    const during = mapping(second);
    before.forEach((member, index) => {
      if (member === lost) expect(during[index]).not.toBe(lost);
      else expect(during[index]).toBe(member);
    });
    // What it had is spread over the others, not piled on one.
    const heirs = new Set(during.filter((_, index) => before[index] === lost));
    expect(heirs.size).toBeGreaterThan(8);
    lost.connection = connection;
    expect(mapping(hash(options)(pickSet(members), second, context))).toEqual(before);
  });

  it('gives calls without a key to the picker for such calls', () => {
    const members = subchannels(3);
    const picker = hash({ ...options, withoutKey: roundRobin() })(pickSet(members), undefined, context);
    const picked = [1, 2, 3].map(() => picker.pick(request()));
    expect(new Set(picked).size).toBe(3);
  });

  it('keeps endpoints within maxLoadRatio of their share of the calls in flight, when all have one key', () => {
    const members = subchannels(20);
    const picker = hash({ ...options, maxLoadRatio: 1.25 })(pickSet(members), undefined, context);
    const running: TestSubchannel[] = [];
    for (let call = 0; call < 400; call++) {
      const picked = picker.pick(request({ key: 'hot' })) as TestSubchannel;
      picked.start(0);
      running.push(picked);
      const most = Math.max(...members.map(({ inFlight }) => inFlight));
      expect(most).toBeLessThanOrEqual(Math.ceil((1.25 * running.length) / 20));
    }
    for (const each of running) {
      each.end(0, 0, outcomes.success, 0);
      picker.ended?.(each);
    }
    // What has ended counts no more: with nothing else running a second call finds the first one's endpoint full.
    const first = picker.pick(request({ key: 'hot' })) as TestSubchannel;
    first.start(0);
    expect(picker.pick(request({ key: 'hot' }))).not.toBe(first);
  });

  it('sends an endpoint with few calls in flight all calls of its keys, whatever its share', () => {
    const members = subchannels(20);
    const picker = hash({ ...options, maxLoadRatio: 1.25, minInFlight: 4 })(pickSet(members), undefined, context);
    for (let call = 1; call <= 100; call++) {
      (picker.pick(request({ key: 'hot' })) as TestSubchannel).start(0);
      const most = Math.max(...members.map(({ inFlight }) => inFlight));
      expect(most).toBe(call <= 4 ? call : Math.max(4, most));
      expect(most).toBeLessThanOrEqual(Math.max(4, Math.ceil((1.25 * call) / 20)));
    }
  });

  it('counts calls of all clients towards maxLoadRatio while servers report them', () => {
    for (const count of [5, 100]) {
      const members = subchannels(count, relativeLatency());
      const bounded = hash({ ...options, maxLoadRatio: 1.25 })(pickSet(members), undefined, context);
      const least = hash({ ...options, maxLoadRatio: 1.25, minInFlight: 20 })(pickSet(members), undefined, context);
      const own = bounded.pick(request({ key: 'hot', nowMs: 1 })) as TestSubchannel;
      for (const member of members) {
        member.reported({ namedMetrics: { evenkeel_in_flight: member === own ? 12 : 4 } }, 1_000);
      }
      const other = bounded.pick(request({ key: 'hot', nowMs: 1_000 }));
      expect(other).not.toBe(own);
      expect(bounded.pick(request({ key: 'hot', nowMs: 1_000 }))).toBe(other);
      expect(least.pick(request({ key: 'hot', nowMs: 1_000 }))).toBe(own);
      // It says that it is no busier than the others.
      own.reported({ namedMetrics: { evenkeel_in_flight: 4 } }, 1_020);
      expect(bounded.pick(request({ key: 'hot', nowMs: 1_020 }))).toBe(own);
    }
  });

  it('counts calls that began before the current set towards maxLoadRatio', () => {
    const members = subchannels(20);
    for (const member of members) for (let call = 0; call < 5; call++) member.start(0);
    const picker = hash({ ...options, maxLoadRatio: 1.25 })(pickSet(members), undefined, context);
    for (let running = 101; running <= 200; running++) {
      (picker.pick(request({ key: 'hot' })) as TestSubchannel).start(0);
      expect(Math.max(...members.map(({ inFlight }) => inFlight))).toBeLessThanOrEqual(
        Math.ceil((1.25 * running) / 20),
      );
    }
  });

  it('does not count picks towards maxLoadRatio whose call never began', () => {
    const members = subchannels(20);
    const picker = hash({ ...options, maxLoadRatio: 1.25 })(pickSet(members), undefined, context);
    for (let dropped = 0; dropped < 500; dropped++) picker.pick(request({ key: 'hot' }));
    for (let running = 1; running <= 100; running++) {
      (picker.pick(request({ key: 'hot' })) as TestSubchannel).start(0);
      expect(Math.max(...members.map(({ inFlight }) => inFlight))).toBeLessThanOrEqual(
        Math.ceil((1.25 * running) / 20),
      );
    }
  });

  it('keeps the picker for calls without a key when it is replaced', () => {
    const members = subchannels(7);
    const without = hash({ ...options, withoutKey: roundRobin() });
    const rng = seededRng(1);
    let picker = without(pickSet(members), undefined, { rng });
    const picked = new Set<unknown>();
    for (let call = 0; call < 7; call++) {
      picked.add(picker.pick(request()));
      picker = without(pickSet(members), picker, { rng });
    }
    expect(picked.size).toBe(7);
  });

  it('applies maxLoadRatio to the shares of ready endpoints, while others have no connection', () => {
    const members = subchannels(20);
    const ready = members.slice(0, 5);
    for (const member of members.slice(5)) member.connection = undefined;
    const picker = hash({ ...options, maxLoadRatio: 1.25 })(pickSet(ready, undefined, members), undefined, context);
    for (let call = 1; call <= 200; call++) {
      (picker.pick(request({ key: 'hot' })) as TestSubchannel).start(0);
      expect(Math.max(...ready.map(({ inFlight }) => inFlight))).toBeLessThanOrEqual(Math.ceil((1.25 * call) / 5));
    }
  });

  it.each([null, undefined, '', {}, Number.NaN])('treats a key of %o as none', (key) => {
    const members = subchannels(3);
    const picker = hash({ ...options, withoutKey: roundRobin() })(pickSet(members), undefined, context);
    const picked = [1, 2, 3].map(() => picker.pick(request({ key: key as never })));
    expect(new Set(picked).size).toBe(3);
  });

  it('treats a number like its digits', () => {
    const members = subchannels(20);
    const picker = hash(options)(pickSet(members), undefined, context);
    for (const key of [0, 7, 42n]) {
      expect(picker.pick(request({ key: key as never }))).toBe(picker.pick(request({ key: String(key) })));
    }
  });

  it('distinguishes endpoints by address and port alone', () => {
    const members = subchannels(5);
    const [a] = members as [TestSubchannel];
    const before = mapping(hash(options)(pickSet(members), undefined, context));
    const twin = subchannel(a.endpoint.address);
    const after = mapping(hash(options)(pickSet([twin, ...members.slice(1)]), undefined, context));
    expect(after.map((member) => (member === twin ? a : member))).toEqual(before);
  });
});

describe('hash', () => {
  it('moves nearly all keys between 16 and 17 endpoints with auto, and about 1 / 17 of them with maglev', () => {
    const members = subchannels(17);
    const movedBy = (options: HashOptions): number => {
      const before = mapping(hash(options)(pickSet(members), undefined, context));
      const after = mapping(hash(options)(pickSet(members.slice(0, 16)), undefined, context));
      return before.filter((member, index) => member !== after[index]).length / keys.length;
    };
    expect(movedBy({})).toBeGreaterThan(0.8);
    expect(movedBy({ method: 'maglev' })).toBeLessThan(0.12);
  });

  it('moves keys only by as much as weights change: a newcomer with growing weight takes more and more, and moves no others', () => {
    const members = subchannels(5);
    const newcomer = members[4] as TestSubchannel;
    let before = mapping(hash()(pickSet(members.slice(0, 4)), undefined, context));
    for (const weight of [0.1, 0.5, 0.9, 1]) {
      const after = mapping(hash()(pickSet(members, [1, 1, 1, 1, weight]), undefined, context));
      after.forEach((member, index) => {
        if (member !== newcomer) expect(member).toBe(before[index]);
      });
      const share = after.filter((member) => member === newcomer).length / keys.length;
      expect(share).toBeCloseTo(weight / (4 + weight), 1);
      before = after;
    }
  });

  it('does not rebuild its table while endpoints and weights stay the same', () => {
    const members = subchannels(100);
    const first = hash()(pickSet(members), undefined, context);
    mapping(first);
    /** The shortest of twenty times: what else the machine does is in the others. */
    const bestMs = (previous: Parameters<ReturnType<typeof hash>>[1]): number =>
      Math.min(
        ...Array.from({ length: 20 }, () => {
          const began = performance.now();
          mapping(hash()(pickSet(members.slice(1), undefined, members), previous, context));
          return performance.now() - began;
        }),
      );
    expect(bestMs(first)).toBeLessThan(bestMs(undefined) / 2);
  });

  it('rejects invalid options', () => {
    for (const bad of [
      { method: 'md5' },
      { maxLoadRatio: 1 },
      { minInFlight: 0 },
      { minInFlight: 1.5 },
      { withoutKey: 'p2c' },
      { size: 5 },
    ]) {
      expect(() => hash(bad as never), JSON.stringify(bad)).toThrowError(
        expect.objectContaining({ code: 'EVENKEEL_OPTION' }),
      );
    }
  });
});

describe('rendezvous', () => {
  it.each([2, 5, 16])('moves no key without need when one of %i endpoints goes or returns', (count) => {
    const members = subchannels(count);
    const all = mapping(hash()(pickSet(members), undefined, context));
    for (const gone of [members[0], members[count - 1], members[count >> 1]]) {
      const rest = members.filter((member) => member !== gone);
      const without = mapping(hash()(pickSet(rest), undefined, context));
      expect(all.filter((member, index) => member !== gone && member !== without[index])).toHaveLength(0);
    }
  });
});

/** As many places as the picker's table has. */
const SIZE = 65_537;

describe('a Maglev table', () => {
  it.each([2, 17, 100, 999, 1_000])('gives none of %i equal endpoints more than 1.01 times the mean', (count) => {
    const names = Array.from({ length: count }, (_, index) => `10.0.${index >> 8}.${index & 255}:80`);
    const table = maglevTable(
      names,
      names.map(() => 1),
      SIZE,
    );
    const counts = new Array<number>(count).fill(0);
    for (let place = 0; place < table.length; place++)
      counts[table[place] as number] = (counts[table[place] as number] as number) + 1;
    expect(Math.max(...counts) / (table.length / count)).toBeLessThanOrEqual(1.01);
  });

  it('gives places by weight, exact to one place', () => {
    const names = Array.from({ length: 50 }, (_, index) => `10.0.0.${index}:80`);
    const weights = names.map((_, index) => 1 + (index % 4) + (index === 7 ? 0.1 : 0));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    const table = maglevTable(names, weights, SIZE);
    const counts = new Array<number>(50).fill(0);
    for (let place = 0; place < table.length; place++)
      counts[table[place] as number] = (counts[table[place] as number] as number) + 1;
    counts.forEach((count, index) => {
      expect(Math.abs(count - ((weights[index] as number) / total) * table.length)).toBeLessThanOrEqual(2);
    });
  });

  it('gives places by weight where weights differ widely, in about the time it takes with equal ones', () => {
    const names = Array.from({ length: 5_000 }, (_, index) => `10.0.${index >> 8}.${index & 255}:80`);
    const fill = (weights: readonly number[]): [Int32Array, number] => {
      const began = performance.now();
      return [maglevTable(names, weights, SIZE), performance.now() - began];
    };
    const best = (weights: readonly number[]): number => Math.min(...[1, 2, 3, 4].map(() => fill(weights)[1]));
    const giant = names.map((_, index) => (index === 7 ? 65_535 : 1));
    const [table] = fill(giant);
    const counts = new Array<number>(5_000).fill(0);
    for (let place = 0; place < table.length; place++)
      counts[table[place] as number] = (counts[table[place] as number] as number) + 1;
    // Everybody has a place in the first round, and the dwarfs no second one.
    expect(counts[7]).toBe(table.length - 4_999);
    // One round per place over all endpoints would take 100 times as long.
    expect(best(giant) / best(names.map(() => 1))).toBeLessThan(20);
  });

  it('has any number of places, also fewer than there are endpoints', () => {
    for (const places of [1, 2, 7, 100, 1_000]) {
      for (const names of [['a'], ['a', 'b', 'c'], Array.from({ length: 150 }, (_, index) => `pod-${index}`)]) {
        const counts = new Map<number, number>();
        const table = maglevTable(
          names,
          names.map(() => 1),
          places,
        );
        for (const owner of table) counts.set(owner, (counts.get(owner) ?? 0) + 1);
        const least = Math.floor(places / names.length);
        expect([...counts.keys()].every((owner) => owner >= 0 && owner < names.length)).toBe(true);
        expect([...counts.values()].every((count) => count === least || count === least + 1)).toBe(true);
        expect(table).toHaveLength(places);
      }
    }
  });
});
