import { beforeEach, describe, expect, it } from 'vitest';
import { outcomes } from '../../src/endpoint/outcome.js';
import { inFlight } from '../../src/load/in-flight.js';
import type { LoadFactory } from '../../src/load/load.js';
import type { Picker, PickerFactory, PickRequest, PickSet } from '../../src/picker/picker.js';
import { drawIndex, type Rng } from '../../src/runtime/rng.js';
import { seededRng } from '../../src/testing/seeded-rng.js';
import { bytesPerCall } from '../support/allocation.js';
import {
  KnownLoads,
  pickSet,
  request,
  slotsOf,
  subchannel,
  subchannels,
  type TestSubchannel,
} from '../support/fixtures/pick-set.js';

/** What the suite has to know of a picker. */
export interface PickerContract {
  readonly name: string;
  readonly picker: PickerFactory;
  readonly load?: LoadFactory;
  /**
   * How far the share of an endpoint may be from its weight, as a factor either way, over 20,000 picks with nothing in
   * flight. State where it comes from. Text: not tested, for this reason.
   */
  readonly idleBound: number | string;
  /** The same with as many calls in flight as there are endpoints. */
  readonly busyBound: number | string;
  /** Calls carry keys, a new one each time: for hash pickers. */
  readonly keyed?: boolean;
}

/** Picks and starts calls as the balancer does, and ends them in random order. */
class Caller {
  readonly running: TestSubchannel[] = [];
  picker: Picker<TestSubchannel>;
  readonly #factory: PickerFactory;
  readonly #rng: Rng;
  readonly #keyed: boolean;
  readonly #request: PickRequest = request();
  #calls = 0;

  constructor(contract: PickerContract, set: PickSet<TestSubchannel>, seed = 1) {
    this.#factory = contract.picker;
    this.#keyed = contract.keyed === true;
    this.#rng = seededRng(seed);
    this.picker = this.#factory(set, undefined, { rng: this.#rng }) as Picker<TestSubchannel>;
  }

  replace(set: PickSet<TestSubchannel>): void {
    this.picker = this.#factory(set, this.picker, { rng: this.#rng }) as Picker<TestSubchannel>;
  }

  start(avoid?: ReadonlySet<TestSubchannel>): TestSubchannel | undefined {
    this.#request.nowMs = ++this.#calls;
    this.#request.key = this.#keyed ? `key-${this.#calls}` : undefined;
    this.#request.avoid = avoid;
    const picked = this.picker.pick(this.#request);
    if (picked === undefined) return undefined;
    picked.start(this.#calls);
    this.running.push(picked);
    return picked;
  }

  /** Ends calls at random until `left` run. */
  endDownTo(left: number): void {
    while (this.running.length > left) {
      const index = drawIndex(this.#rng, this.running.length);
      const ending = this.running[index] as TestSubchannel;
      this.running[index] = this.running[this.running.length - 1] as TestSubchannel;
      this.running.pop();
      // Every call took as long as any other: loads that measure latency see equals.
      ending.end(this.#calls - 1, this.#calls, outcomes.success, this.#calls - 1);
      this.picker.ended?.(ending);
    }
  }

  /** `picks` calls, `concurrency` of them at once at most. */
  run(picks: number, concurrency: number): void {
    for (let pick = 0; pick < picks; pick++) {
      this.endDownTo(concurrency - 1);
      this.start();
    }
  }
}

/** What every picker owes, over whatever load. */
export function pickerContract(contract: PickerContract): void {
  const load = contract.load ?? inFlight();
  let known = new KnownLoads();
  beforeEach(() => {
    known = new KnownLoads();
  });
  const many = (count: number): TestSubchannel[] => subchannels(count, load, known);
  const caller = (members: readonly TestSubchannel[], weights?: readonly number[], seed?: number): Caller =>
    new Caller(contract, pickSet(members, weights), seed);

  describe(contract.name, () => {
    it('returns nothing for an empty set', () => {
      expect(caller([]).start()).toBeUndefined();
    });

    it('picks the only endpoint even if it is to be avoided', () => {
      const [only] = many(1) as [TestSubchannel];
      const one = caller([only]);
      expect(one.start()).toBe(only);
      expect(one.start(new Set([only]))).toBe(only);
    });

    it.each([2, 5, 20, 100])('uses all of %i endpoints', (count) => {
      const members = many(count);
      caller(members).run(count * 60, 1);
      expect(members.filter(({ started }) => started === 0)).toEqual([]);
    });

    // Shapes: a few, one newcomer of a tenth (slow start), one giant, many mixed.
    const shapes: Record<string, readonly number[]> = {
      '1 : 2 : 3': [1, 2, 3],
      'a tenth among equals': [0.1, 1, 1, 1, 1],
      'one giant': [10, 1, 1],
      'ten mixed': [1, 2, 3, 1, 2, 3, 1, 2, 3, 2],
    };
    for (const [shape, weights] of Object.entries(shapes)) {
      for (const busy of [false, true]) {
        const bound = busy ? contract.busyBound : contract.idleBound;
        if (typeof bound === 'string') continue;
        it(`gives shares by weight within × ${bound}, ${busy ? 'busy' : 'idle'}: ${shape}`, () => {
          const members = many(weights.length);
          caller(members, weights).run(20_000, busy ? weights.length : 1);
          const total = weights.reduce((sum, weight) => sum + weight, 0);
          members.forEach(({ started }, index) => {
            const ratio = started / 20_000 / ((weights[index] as number) / total);
            expect(ratio, `endpoint ${index}`).toBeLessThanOrEqual(bound);
            expect(ratio, `endpoint ${index}`).toBeGreaterThanOrEqual(1 / bound);
          });
        });
      }
    }

    it('picks only from the current set while endpoints come and go with calls running on them', () => {
      const rng = seededRng(7);
      let next = 0;
      let members: TestSubchannel[] = many(6);
      const churning = caller(members);
      for (let round = 0; round < 120; round++) {
        const stay = members.filter(() => rng.next() < 0.8);
        const join = Array.from({ length: drawIndex(rng, 4) }, () =>
          subchannel(`10.9.${next >> 8}.${next++ & 255}`, load, known),
        );
        members = [...stay, ...join].sort(() => rng.next() - 0.5);
        churning.replace(
          pickSet(
            members,
            members.map(() => (round % 3 === 0 ? 1 + drawIndex(rng, 3) : 1)),
          ),
        );
        for (let pick = 0; pick < 10; pick++) {
          churning.endDownTo(drawIndex(rng, 12));
          const picked = churning.start();
          expect(picked === undefined ? members.length === 0 : members.includes(picked)).toBe(true);
        }
      }
      churning.endDownTo(0);
    });

    it('spreads calls as evenly when it is replaced all the time: it hands on what it knows', () => {
      const members = many(6);
      const set = pickSet(members);
      const replaced = caller(members);
      for (let pick = 0; pick < 3_000; pick++) {
        if (pick % 5 === 0) replaced.replace(set);
        replaced.endDownTo(0);
        replaced.start();
      }
      const bound = typeof contract.idleBound === 'string' ? 1.02 : Math.max(1.02, contract.idleBound);
      for (const { started } of members) {
        const share = started / (3_000 / members.length);
        expect(share).toBeLessThanOrEqual(bound);
        expect(share).toBeGreaterThanOrEqual(1 / bound);
      }
    });

    it('skips subchannels at capacity, and those without a connection', () => {
      const members = many(5);
      members.forEach((member, index) => {
        slotsOf(member).capacity = index;
      });
      (members[4] as TestSubchannel).connection = undefined;
      const full = caller(members);
      for (let pick = 0; pick < 6; pick++) expect(full.start()).toBeDefined();
      expect(full.start()).toBeUndefined();
      expect(members.map(({ inFlight }) => inFlight)).toEqual([0, 1, 2, 3, 0]);
      full.endDownTo(5);
      const [freed] = members.filter((member) => member.inFlight < member.capacity);
      expect(full.start()).toBe(freed);
    });

    it('avoids the endpoints in `avoid` while any other has room', () => {
      const members = many(4);
      const [a, b, c, d] = members as [TestSubchannel, TestSubchannel, TestSubchannel, TestSubchannel];
      const avoiding = caller(members);
      for (let pick = 0; pick < 50; pick++) {
        avoiding.endDownTo(0);
        expect(avoiding.start(new Set([a, b, c]))).toBe(d);
      }
      avoiding.endDownTo(0);
      // Also where it is busier than those to avoid, and wherever it stands among them.
      for (const only of members) {
        only.start(0);
        only.start(0);
        expect(avoiding.start(new Set(members.filter((member) => member !== only)))).toBe(only);
        avoiding.endDownTo(0);
        for (let call = 0; call < 2; call++) {
          only.end(0, 0, outcomes.success, 0);
          avoiding.picker.ended?.(only);
        }
      }
      slotsOf(d).capacity = 0;
      expect([a, b, c]).toContain(avoiding.start(new Set([a, b, c])));
      for (const member of members) slotsOf(member).capacity = 0;
      expect(avoiding.start(new Set([a, b, c]))).toBeUndefined();
    });

    it.each([
      ['a giant and a dwarf', [1_000, 1]],
      ['newcomers of a tenth', [1, 0.1, 0.1]],
      ['one giant', [50, 1, 1, 2]],
    ])('picks a lighter endpoint when the heaviest is full or was tried: %s', (_shape, weights) => {
      const members = many(weights.length);
      const [heavy] = members as [TestSubchannel];
      const finding = caller(members, weights);
      for (let pick = 0; pick < 50; pick++) {
        finding.endDownTo(0);
        const picked = finding.start(new Set([heavy]));
        expect(picked === undefined || picked === heavy).toBe(false);
      }
      slotsOf(heavy).capacity = 0;
      for (let pick = 0; pick < 50; pick++) {
        finding.endDownTo(0);
        expect(finding.start()).toBeDefined();
      }
    });

    it('makes the same picks again with the same seed', () => {
      const picks = (seed: number): number[] => {
        known = new KnownLoads();
        const members = many(12);
        const repeatable = caller(members, undefined, seed);
        const result: number[] = [];
        for (let pick = 0; pick < 200; pick++) {
          repeatable.endDownTo(3);
          result.push(members.indexOf(repeatable.start() as TestSubchannel));
        }
        return result;
      };
      expect(picks(3)).toEqual(picks(3));
      if (contract.keyed !== true) expect(picks(3)).not.toEqual(picks(4));
    });

    // Boxed numbers are what a megamorphic call may cost: two of 16 bytes, depending on what the engine compiled before. An object of ours
    // would be 24 bytes and more on top of at least one of them.
    it.each([5, 100])('allocates no object for a pick, a start or an end, with %i endpoints', (count) => {
      const set = pickSet(many(count));
      const rng = seededRng(1);
      const picker = contract.picker(set, undefined, { rng });
      const keys = Array.from({ length: 64 }, (_, index) => `key-${index}`);
      const reused = request();
      let now = 0;
      let calls = 0;
      const bytes = bytesPerCall(() => {
        now += 0.37; // no whole number, as the real clock's
        reused.nowMs = now;
        if (contract.keyed === true) reused.key = keys[calls++ & 63];
        const picked = picker.pick(reused) as TestSubchannel;
        picked.start(now);
        picked.end(now, now, outcomes.success, now);
        picker.ended?.(picked);
      }, 25);
      // A load that compares endpoints every 100 ms adds a fraction of a byte.
      expect(bytes).toBeLessThanOrEqual(33);
    });
  });
}
