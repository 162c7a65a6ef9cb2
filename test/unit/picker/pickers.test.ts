import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { inFlight } from '../../../src/load/in-flight.js';
import { peakEwma } from '../../../src/load/peak-ewma.js';
import { reported } from '../../../src/load/reported.js';
import { leastLoaded, neverQueue, shortestExpectedDelay } from '../../../src/picker/least-loaded.js';
import { p2c } from '../../../src/picker/p2c.js';
import type { Picker, PickerFactory } from '../../../src/picker/picker.js';
import { random } from '../../../src/picker/random.js';
import { roundRobin } from '../../../src/picker/round-robin.js';
import { weightedRoundRobin } from '../../../src/picker/weighted-round-robin.js';
import { drawIndex } from '../../../src/runtime/rng.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import {
  pickSet,
  request,
  type Slots,
  slotsOf,
  subchannels,
  type TestSubchannel,
} from '../../support/fixtures/pick-set.js';

const context = { rng: seededRng(1) };

function over(
  factory: PickerFactory,
  members: readonly TestSubchannel[],
  weights?: readonly number[],
): Picker<TestSubchannel> {
  return factory(pickSet(members, weights), undefined, { rng: seededRng(1) }) as Picker<TestSubchannel>;
}

/** Starts `calls` calls on a subchannel, past the picker. */
function occupy(subchannel: TestSubchannel, calls: number): void {
  for (let call = 0; call < calls; call++) subchannel.start(0);
}

/** One call after another, each ended before the next; who got them, as indexes. */
function inTurn(picker: Picker, members: readonly TestSubchannel[], calls: number): number[] {
  return Array.from({ length: calls }, () => {
    const picked = picker.pick(request()) as TestSubchannel;
    picked.start(0);
    picked.end(0, 0, outcomes.success, 0);
    picker.ended?.(picked);
    return members.indexOf(picked);
  });
}

describe('round robin', () => {
  it.each([1, 2, 3, 4, 5])(
    'uses endpoints one after the other, and continues when it is replaced (seed %i)',
    (seed) => {
      const members = subchannels(7);
      const rng = seededRng(seed);
      const first = roundRobin()(pickSet(members), undefined, { rng });
      const order = inTurn(first, members, 7);
      expect([...order].sort()).toEqual([0, 1, 2, 3, 4, 5, 6]);
      inTurn(first, members, seed);
      const second = roundRobin()(pickSet(members), first, { rng });
      expect(inTurn(second, members, 7)).toEqual([...order.slice(seed), ...order.slice(0, seed)]);
    },
  );

  it('continues after the endpoint that had the last turn, whatever came or went before it', () => {
    const members = subchannels(6);
    const of = (...indexes: number[]) => pickSet(indexes.map((index) => members[index] as TestSubchannel));
    const rng = seededRng(1);
    const none = roundRobin()(of(), undefined, { rng });
    const few = roundRobin()(of(1, 3), none, { rng });
    inTurn(few, members, 1);
    const [last] = inTurn(few, members, 1) as [number];
    const more = roundRobin()(of(0, 1, 2, 3, 4), few, { rng });
    expect(inTurn(more, members, 2)).toEqual([(last + 1) % 5, (last + 2) % 5]);
    const now = (last + 2) % 5;
    const without = roundRobin()(of(...[0, 1, 2, 3, 4].filter((index) => index !== now)), more, { rng });
    expect(inTurn(without, members, 1)).toEqual([(now + 1) % 5]);
    // Nobody of those before is left, and then nobody at all.
    const others = roundRobin()(of(5), without, { rng });
    const back = roundRobin()(of(0, 1), roundRobin()(of(), others, { rng }), { rng });
    expect(inTurn(back, members, 2).sort()).toEqual([0, 1]);
  });

  it('starts at different places in different clients, also when there was nothing at first', () => {
    const members = subchannels(10);
    const starts = new Set(
      Array.from({ length: 50 }, (_, seed) => {
        const rng = seededRng(seed);
        const picker = roundRobin()(pickSet(members), roundRobin()(pickSet([]), undefined, { rng }), { rng });
        return inTurn(picker, members, 1)[0];
      }),
    );
    expect(starts.size).toBeGreaterThan(5);
  });

  it('interleaves unequal weights: no endpoint gets more than its share in a row', () => {
    const members = subchannels(3);
    const order = inTurn(over(roundRobin(), members, [4, 1, 1]), members, 600).join('');
    expect(order).not.toMatch(/0{5}|1{2}|2{2}/);
    expect(order.match(/0/g)).toHaveLength(400);
  });

  it('is never more than one call away from the share of any weight', () => {
    const weights = [0.5, 1, 3.25, 7];
    const members = subchannels(4);
    const order = inTurn(over(roundRobin(), members, weights), members, 2_000);
    const counts = [0, 0, 0, 0];
    order.forEach((index, call) => {
      counts[index] = (counts[index] as number) + 1;
      weights.forEach((weight, each) => {
        expect(Math.abs((counts[each] as number) - ((call + 1) * weight) / 11.75)).toBeLessThan(1.5);
      });
    });
  });
});

describe('least loaded', () => {
  it('always takes one of the least loaded, through any order of starts and ends', () => {
    const rng = seededRng(2);
    const members = subchannels(50);
    const picker = over(leastLoaded(), members);
    const running: TestSubchannel[] = [];
    for (let step = 0; step < 20_000; step++) {
      if (running.length > 0 && rng.next() < 0.49) {
        const [ended] = running.splice(drawIndex(rng, running.length), 1) as [TestSubchannel];
        ended.end(0, 0, outcomes.success, 0);
        picker.ended?.(ended);
        continue;
      }
      const least = Math.min(...members.map(({ inFlight: calls }) => calls));
      const picked = picker.pick(request()) as TestSubchannel;
      expect(picked.inFlight).toBe(least);
      // Now and then the caller drops a pick: nothing may be counted for it.
      if (rng.next() < 0.05) continue;
      picked.start(0);
      running.push(picked);
    }
  });

  it('does not count calls as finished that another picker started', () => {
    const members = subchannels(3);
    const [a, b, c] = members as [TestSubchannel, TestSubchannel, TestSubchannel];
    const picker = over(leastLoaded(), members);
    occupy(a, 5);
    occupy(b, 5);
    for (let call = 0; call < 5; call++) {
      const picked = picker.pick(request()) as TestSubchannel;
      expect(picked).toBe(c);
      picked.start(0);
    }
  });

  it('gives a slow endpoint fewer calls: turns never outweigh a call in flight', () => {
    const members = subchannels(2);
    const picker = over(leastLoaded(), members);
    // One keeps its call; all others must go to the other, one at a time.
    const first = picker.pick(request()) as TestSubchannel;
    first.start(0);
    const other = members.find((member) => member !== first) as TestSubchannel;
    for (let call = 0; call < 1_000; call++) {
      const picked = picker.pick(request()) as TestSubchannel;
      expect(picked).toBe(other);
      picked.start(0);
      picked.end(0, 0, outcomes.success, 0);
      picker.ended?.(picked);
    }
    expect([first.inFlight, other.inFlight]).toEqual([1, 0]);
  });

  it('evens out calls in flight per weight', () => {
    const members = subchannels(3);
    const picker = over(leastLoaded(), members, [1, 2, 5]);
    for (let call = 0; call < 800; call++) (picker.pick(request()) as TestSubchannel).start(0);
    const [a, b, c] = members.map(({ inFlight: calls }) => calls) as [number, number, number];
    expect(Math.abs(a - 100)).toBeLessThanOrEqual(1);
    expect(Math.abs(b - 200)).toBeLessThanOrEqual(1);
    expect(Math.abs(c - 500)).toBeLessThanOrEqual(1);
  });

  it('compares all of up to 64 endpoints with a load that decays', () => {
    const members = subchannels(64, peakEwma());
    const picker = over(leastLoaded(), members);
    members.forEach((member, index) => {
      member.start(0);
      member.end(0, index === 40 ? 5 : 50, outcomes.success, 0);
    });
    for (let call = 0; call < 20; call++) expect(picker.pick(request({ nowMs: 50 }))).toBe(members[40]);
  });

  it('draws eight of more than that', () => {
    const members = subchannels(200, peakEwma());
    members.forEach((member, index) => {
      member.start(0);
      member.end(0, index + 1, outcomes.success, 0);
    });
    const picker = over(leastLoaded(), members);
    const ranks = Array.from({ length: 2_000 }, () =>
      members.indexOf(picker.pick(request({ nowMs: 200 })) as TestSubchannel),
    );
    // The best of eight out of 200 is on average the 22nd.
    const mean = ranks.reduce((sum, rank) => sum + rank, 0) / ranks.length;
    expect(mean).toBeGreaterThan(15);
    expect(mean).toBeLessThan(30);
  });
});

describe('random', () => {
  it('does not give all calls of a full endpoint to the next one', () => {
    const members = subchannels(10);
    slotsOf(members[5] as TestSubchannel).capacity = 0;
    const order = inTurn(over(random(), members), members, 10_000);
    // A tenth of the calls drawn there is spread anew: 0.1 + 0.1 × 0.2, not 0.2.
    expect(order.filter((index) => index === 6).length).toBeLessThan(1_500);
  });
});

describe('p2c', () => {
  it('compares all of up to seven, and draws from more', () => {
    const idle = (count: number): number => {
      const members = subchannels(count);
      for (const member of members.slice(1)) occupy(member, 1);
      const picker = over(p2c(), members);
      return Array.from({ length: 200 }, () => picker.pick(request())).filter((picked) => picked === members[0]).length;
    };
    expect(idle(7)).toBe(200);
    expect(idle(8)).toBeLessThan(100);
  });

  it('starts its search at a random place when all that it drew are full', () => {
    const members = subchannels(40);
    for (const [index, member] of members.entries()) if (index % 20 > 0) slotsOf(member).capacity = 0;
    const order = inTurn(over(p2c(), members), members, 4_000);
    // Two have room, as far from one another as can be. Three of four picks draw neither.
    expect(order.filter((index) => index === 0).length).toBeGreaterThan(1_600);
    expect(order.filter((index) => index === 20).length).toBeGreaterThan(1_600);
  });

  it('never picks the fuller of two', () => {
    const members = subchannels(2);
    occupy(members[0] as TestSubchannel, 1);
    const picker = over(p2c(), members);
    for (let call = 0; call < 50; call++) expect(picker.pick(request())).toBe(members[1]);
  });

  it('compares two different ones among many: the fullest is never picked', () => {
    const members = subchannels(20);
    occupy(members[7] as TestSubchannel, 1);
    const picker = over(p2c(), members);
    for (let call = 0; call < 2_000; call++) expect(picker.pick(request())).not.toBe(members[7]);
  });

  it('finds a free one among many that are full', () => {
    const members = subchannels(100);
    for (const member of members.slice(1)) (member.connection as Slots).capacity = 0;
    const picker = over(p2c(), members);
    for (let call = 0; call < 100; call++) expect(picker.pick(request())).toBe(members[0]);
  });

  it('spreads evenly over those with room when many are full', () => {
    const members = subchannels(30);
    members.forEach((member, index) => {
      if (index >= 3 && index < 28) (member.connection as Slots).capacity = 0;
    });
    const picker = over(p2c(), members);
    const counts = new Map<number, number>();
    for (const index of inTurn(picker, members, 10_000)) counts.set(index, (counts.get(index) ?? 0) + 1);
    expect([...counts.keys()].sort((a, b) => a - b)).toEqual([0, 1, 2, 28, 29]);
    // Six draws miss all five in a third of the picks; those begin to search at a random place, where the first behind
    // the gap is found more often.
    expect(Math.min(...counts.values())).toBeGreaterThan(1_000);
  });

  it('draws more if choices says so', () => {
    const members = subchannels(100);
    members.forEach((member, index) => {
      occupy(member, index);
    });
    const mean = (choices: number): number => {
      const picker = over(p2c({ choices }), members);
      let sum = 0;
      for (let call = 0; call < 3_000; call++) sum += (picker.pick(request()) as TestSubchannel).inFlight;
      return sum / 3_000;
    };
    // The least of d out of 0 … 99 is about 100 / (d + 1).
    expect(mean(2)).toBeCloseTo(33, -1);
    expect(mean(4)).toBeCloseTo(20, -1);
    expect(mean(16)).toBeLessThan(8);
  });

  it('rejects invalid options', () => {
    for (const bad of [{ choices: 1 }, { choices: 17 }, { choices: 2.5 }, { draws: 2 }]) {
      expect(() => p2c(bad as never)).toThrowError(expect.objectContaining({ code: 'EVENKEEL_OPTION' }));
    }
  });
});

describe('shortest expected delay', () => {
  it('picks the heaviest while it is the fastest', () => {
    const members = subchannels(2);
    const [light, heavy] = members as [TestSubchannel, TestSubchannel];
    const picker = over(shortestExpectedDelay(), members, [1, 3]);
    const order = Array.from({ length: 8 }, () => {
      const picked = picker.pick(request()) as TestSubchannel;
      picked.start(0);
      return picked === heavy ? 'heavy' : 'light';
    });
    // (0 + 1) / 3, (1 + 1) / 3, then 1 / 1 and 3 / 3 alike, and so on.
    expect(order.slice(0, 2)).toEqual(['heavy', 'heavy']);
    expect(order.slice(2, 4).sort()).toEqual(['heavy', 'light']);
    expect([light.inFlight, heavy.inFlight]).toEqual([2, 6]);
  });
});

describe('never queue', () => {
  it('picks an idle endpoint, however light, then the one with the shortest delay', () => {
    const members = subchannels(2);
    const [light, heavy] = members as [TestSubchannel, TestSubchannel];
    const picker = over(neverQueue(), members, [1, 10]);
    const both = [picker.pick(request()), undefined];
    both[0]?.start(0);
    both[1] = picker.pick(request());
    both[1]?.start(0);
    expect(new Set(both)).toEqual(new Set([light, heavy]));
    expect(picker.pick(request())).toBe(heavy);
  });
});

describe('never queue with a load that decays, among more than it compares', () => {
  it('picks an idle endpoint among those it draws, however slow', () => {
    const members = subchannels(100, peakEwma());
    members.forEach((member, index) => {
      member.start(0);
      member.end(0, index % 2 === 0 ? 500 : 1, outcomes.success, 0);
      if (index % 2 === 1) member.start(500);
    });
    const picker = over(neverQueue(), members);
    const picked = Array.from({ length: 500 }, () => picker.pick(request({ nowMs: 500 })) as TestSubchannel);
    // Eight draws find none of the idle half in one of 256 picks.
    expect(picked.filter(({ inFlight: calls }) => calls === 0).length).toBeGreaterThan(480);
  });
});

describe('weighted round robin', () => {
  it('is plain round robin while no rate is known', () => {
    const members = subchannels(4, reported());
    const order = inTurn(over(weightedRoundRobin(), members), members, 400);
    for (const index of [0, 1, 2, 3]) expect(order.filter((each) => each === index)).toHaveLength(100);
  });

  it('follows what servers report, and uses the median for those that report nothing', () => {
    const members = subchannels(3, reported({ blackoutMs: 0 }));
    const report = (member: TestSubchannel, rpsFractional: number, applicationUtilization: number): void => {
      member.start(0);
      member.end(0, 0, { kind: 'success', report: { rpsFractional, applicationUtilization } }, 0);
    };
    report(members[0] as TestSubchannel, 100, 0.5); // 200 per second
    report(members[1] as TestSubchannel, 100, 0.25); // 400
    const order = inTurn(over(weightedRoundRobin(), members), members, 800);
    const counts = [0, 1, 2].map((index) => order.filter((each) => each === index).length);
    // The smaller of two is their median.
    expect(counts).toEqual([200, 400, 200]);
  });

  it('follows changes within updateMs', () => {
    const members = subchannels(2, reported({ blackoutMs: 0 }));
    const picker = over(weightedRoundRobin({ updateMs: 1_000 }), members);
    const counts = (nowMs: number): number => {
      let first = 0;
      for (let call = 0; call < 400; call++) if (picker.pick(request({ nowMs })) === members[0]) first++;
      return first;
    };
    expect(counts(0)).toBe(200);
    for (const [index, rate] of [100, 300].entries()) {
      const member = members[index] as TestSubchannel;
      member.start(0);
      member.end(0, 0, { kind: 'success', report: { rpsFractional: rate, cpuUtilization: 1 } }, 0);
    }
    expect(counts(999)).toBe(200);
    expect(counts(1_000)).toBe(100);
  });

  it('keeps rates above a tenth of the median, and below three times the median', () => {
    const members = subchannels(3, reported({ blackoutMs: 0 }));
    for (const [index, rate] of [1, 1_000, 1_000].entries()) {
      const member = members[index] as TestSubchannel;
      member.start(0);
      member.end(0, 0, { kind: 'success', report: { rpsFractional: rate, cpuUtilization: 1 } }, 0);
    }
    const order = inTurn(over(weightedRoundRobin(), members), members, 3_100);
    expect(order.filter((index) => index === 0).length).toBeGreaterThan(90);
    const claiming = members[0] as TestSubchannel;
    claiming.start(0);
    claiming.end(0, 0, { kind: 'success', report: { rpsFractional: 1e6, cpuUtilization: 1 } }, 0);
    const after = inTurn(over(weightedRoundRobin(), members), members, 1_000);
    expect(after.filter((index) => index === 0)).toHaveLength(600);
  });
});

describe('turns in weighted picking', () => {
  it('are owed for one step at most: an endpoint whose weight has grown does not wait as long as a light one', () => {
    const members = subchannels(3);
    const light = over(leastLoaded(), members, [1, 1, 0.01]);
    while (members[2]?.started === 0) inTurn(light, members, 1);
    const grown = leastLoaded()(pickSet(members), light, context);
    expect(inTurn(grown, members, 6)).toContain(2);
  });

  it('are passed on to the next picker: rebuilding after every call keeps shares by weight', () => {
    const weights = [1, 2, 7];
    const members = subchannels(3);
    let picker = over(leastLoaded(), members, weights);
    for (let call = 0; call < 1_000; call++) {
      picker = leastLoaded()(pickSet(members, weights), picker, context) as Picker<TestSubchannel>;
      inTurn(picker, members, 1);
    }
    expect(members.map(({ started }) => started)).toEqual([100, 200, 700].map((share) => expect.closeTo(share, -1)));
  });

  it.each([
    ['p2c, which looks at all', p2c()],
    ['leastLoaded', leastLoaded()],
  ])('are not saved up: %s gives one that was full for long no more than the others', (_name, factory) => {
    const members = subchannels(4);
    const [full] = members as [TestSubchannel];
    slotsOf(full).capacity = 0;
    const picker = over(factory, members);
    inTurn(picker, members, 1_000);
    slotsOf(full).capacity = Number.POSITIVE_INFINITY;
    expect(inTurn(picker, members, 12).filter((index) => index === 0).length).toBeLessThanOrEqual(4);
  });

  it('give a newcomer its first call within about a round', () => {
    const members = subchannels(10);
    const first = over(leastLoaded(), members.slice(0, 9));
    inTurn(first, members, 500);
    const second = leastLoaded()(pickSet(members), first, context);
    expect(inTurn(second, members, 12)).toContain(9);
    expect(members[9]?.started).toBeLessThan(4);
  });
});

describe('a picker over weights of all sizes', () => {
  it.each([p2c(), leastLoaded(), roundRobin(), neverQueue()])(
    'serves a set where one weight is a millionth',
    (factory) => {
      const members = subchannels(3, inFlight());
      const picker = over(factory, members, [1e-6, 1, 1]);
      expect(inTurn(picker, members, 3_000).filter((index) => index === 0).length).toBeLessThan(3);
    },
  );
});
