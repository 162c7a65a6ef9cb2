import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { type OutlierEjectionOptions, outlierEjection } from '../../../src/stage/outlier-ejection.js';
import { panic } from '../../../src/stage/panic.js';
import type { StageFactory } from '../../../src/stage/stage.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import { addresses, StageFixture } from '../../support/fixtures/stage-fixture.js';

function fixture(count: number, options?: OutlierEjectionOptions): StageFixture {
  const result = new StageFixture([outlierEjection(options), panic()]);
  result.set(addresses(count));
  return result;
}

const [a, b, c, d, e] = addresses(5) as [string, string, string, string, string];

describe('outlier ejection', () => {
  it('ejects after five failures in a row, not after four', () => {
    const pods = fixture(3);
    pods.completed(a, outcomes.status, 4);
    pods.completed(a, outcomes.success);
    pods.completed(a, outcomes.status, 4);
    expect(pods.usable).toEqual([a, b, c]);
    pods.completed(a, outcomes.timeout);
    expect(pods.usable).toEqual([b, c]);
    expect(pods.entry(a)).toMatchObject({ suspect: true, weight: 0 });
    expect(pods.events).toEqual([`ejected ${a}: 5 failures in a row (last: timeout)`]);
  });

  it('ejects at the first timeout if four more calls were not answered either, not if three were', () => {
    const pods = fixture(3);
    pods.completed(a, outcomes.timeout, 1, 1_000, 4);
    expect(pods.usable).toEqual([a, b, c]);
    pods.completed(b, outcomes.timeout, 1, 1_000, 5);
    expect(pods.usable).toEqual([a, c]);
    expect(pods.events).toEqual([`ejected ${b}: no answer to 5 calls`]);
  });

  it('decides the same whether it is notified of ignored successes one by one or only of their number', () => {
    const options = { consecutiveFailures: Number.POSITIVE_INFINITY, failureRatio: 0.2, minCalls: 10 };
    let ignored = 0;
    const verdicts = Array.from({ length: 300 }, (_, seed) => {
      const rng = seededRng(seed);
      const all = Array.from({ length: 60 }, () => (rng.next() < 0.12 ? outcomes.status : outcomes.success));
      const told = fixture(3, options);
      for (const outcome of all) told.completed(a, outcome);
      const counted = fixture(3, options);
      ignored += counted.completedUnlessIgnored(a, all);
      expect(counted.events).toEqual(told.events);
      return told.usable.length;
    });
    expect(new Set(verdicts)).toEqual(new Set([2, 3]));
    expect(ignored).toBeGreaterThan(1_000);
  });

  it.each(['timeout', 'reset', 'status', 'overload', 'protocol'] as const)('counts %s as a failure', (cause) => {
    const pods = fixture(2);
    pods.completed(a, outcomes[cause], 5);
    expect(pods.usable).toEqual([b]);
  });

  it('counts neither unsent nor cancelled calls, nor failed connections', () => {
    const pods = fixture(2);
    pods.completed(a, outcomes.notStarted, 20);
    pods.completed(a, outcomes.notConnected, 20);
    pods.completed(a, outcomes.cancelled, 20);
    pods.completed(a, { kind: 'failure', cause: 'connect' }, 20);
    for (let attempt = 0; attempt < 20; attempt++) pods.disconnected(a, new Error('refused'));
    expect(pods.usable).toEqual([a, b]);
  });

  it('counts only the causes that are configured', () => {
    const pods = fixture(2, { causes: ['timeout'] });
    pods.completed(a, outcomes.status, 20);
    expect(pods.usable).toEqual([a, b]);
    pods.completed(a, outcomes.timeout, 5);
    expect(pods.usable).toEqual([b]);
  });

  it('puts an endpoint on probation after its time, and restores it at the first success', () => {
    const pods = fixture(3);
    pods.completed(a, outcomes.reset, 5);
    pods.clock.advance(899);
    expect(pods.usable).toEqual([b, c]);
    pods.clock.advance(202); // 1 s ± 10 %
    expect(pods.entry(a)).toMatchObject({ suspect: false, weight: 1, probation: 1 });
    pods.completed(a, outcomes.success);
    expect(pods.entry(a)).toEqual(expect.not.objectContaining({ probation: expect.anything() }));
    expect(pods.events.at(-1)).toBe(`restored ${a}: a call succeeded`);
    expect(pods.clock.timers).toBe(0);
  });

  it('ejects for twice as long each time the trial call fails, up to 60 s', () => {
    const pods = fixture(3);
    pods.completed(a, outcomes.reset, 5);
    for (const seconds of [1, 2, 4, 8, 16, 32, 60, 60]) {
      pods.clock.advance(seconds * 900 - 1);
      expect(pods.usable, `before ${seconds} s`).toEqual([b, c]);
      pods.clock.advance(seconds * 200 + 2);
      expect(pods.usable, `after ${seconds} s`).toEqual([a, b, c]);
      pods.completed(a, outcomes.timeout);
    }
  });

  it('ignores calls from before the trial', () => {
    const pods = fixture(3);
    pods.completed(a, outcomes.timeout, 5);
    pods.completed(a, outcomes.success, 1, 500);
    expect(pods.usable).toEqual([b, c]);
    pods.clock.advance(1_101);
    pods.completed(a, outcomes.timeout, 3, 5_000);
    expect(pods.entry(a)).toMatchObject({ probation: 1 });
    pods.completed(a, outcomes.success, 3, 5_000);
    expect(pods.entry(a)).toMatchObject({ probation: 1 });
  });

  it('ignores a cancelled trial call', () => {
    const pods = fixture(3);
    pods.completed(a, outcomes.timeout, 5);
    pods.clock.advance(1_101);
    pods.completed(a, outcomes.cancelled);
    expect(pods.entry(a)).toMatchObject({ probation: 1, suspect: false });
  });

  it('starts another trial when one has no result for 10 s', () => {
    const pods = fixture(3);
    pods.completed(a, outcomes.timeout, 5);
    pods.clock.advance(1_101);
    expect(pods.entry(a)).toMatchObject({ probation: 1 });
    pods.clock.advance(10_000);
    expect(pods.entry(a)).toMatchObject({ probation: 2 });
    pods.completed(a, outcomes.success, 1, 5_000); // the call of the first round
    expect(pods.usable).toEqual([a, b, c]);
  });

  it('starts with the shortest ejection again after an endpoint was healthy for 10 s', () => {
    const pods = fixture(3);
    const ejectAndRestore = (seconds: number): void => {
      pods.completed(a, outcomes.timeout, 5);
      pods.clock.advance(seconds * 900 - 1);
      expect(pods.usable, `before ${seconds} s`).toEqual([b, c]);
      pods.clock.advance(seconds * 200 + 2);
      expect(pods.usable, `after ${seconds} s`).toEqual([a, b, c]);
      pods.completed(a, outcomes.success);
    };
    for (const seconds of [1, 2, 4]) ejectAndRestore(seconds);
    pods.clock.advance(10_000);
    for (const seconds of [1, 2, 4, 8, 16]) ejectAndRestore(seconds);
    // And for as long as the last ejection was.
    pods.clock.advance(12_000);
    ejectAndRestore(32);
    pods.clock.advance(36_000);
    ejectAndRestore(1);
  });

  it('lets endpoints that were ejected together return one by one: times vary by up to a tenth', () => {
    const pods = fixture(40);
    const startMs = pods.clock.now();
    pods.inOneTurn(() => {
      for (const address of addresses(20)) pods.completed(address, outcomes.timeout, 5);
    });
    const back = [900, 990, 1_150].map((atMs) => {
      pods.clock.advance(startMs + atMs - pods.clock.now());
      return pods.usable.length - 20;
    });
    expect(back[0]).toBe(0);
    // About half of them.
    expect(back[1]).toBeGreaterThanOrEqual(1);
    expect(back[1]).toBeLessThanOrEqual(19);
    expect(back[2]).toBe(20);
  });

  it('ejects for as long as the endpoint asked for with Retry-After', () => {
    const pods = fixture(3);
    pods.completed(a, { kind: 'failure', cause: 'overload', retryAfterMs: 20_000 }, 5);
    pods.clock.advance(17_999);
    expect(pods.usable).toEqual([b, c]);
    pods.clock.advance(4_002);
    expect(pods.usable).toEqual([a, b, c]);
  });

  it('starts the trial earlier when a lost connection is back, once until the next success', () => {
    const pods = fixture(3);
    pods.completed(a, outcomes.reset, 5);
    pods.disconnected(a, new Error('reset'));
    pods.connected(a);
    expect(pods.entry(a)).toMatchObject({ probation: 1, suspect: false });
    // A black hole: accepts connections, answers nothing.
    pods.completed(a, outcomes.timeout);
    pods.disconnected(a, new Error('aborted'));
    pods.connected(a);
    expect(pods.usable).toEqual([b, c]);
    pods.clock.advance(2_201);
    expect(pods.usable).toEqual([a, b, c]);
    pods.completed(a, outcomes.success);
    pods.completed(a, outcomes.reset, 5);
    pods.disconnected(a, new Error('reset'));
    pods.connected(a);
    expect(pods.usable).toEqual([a, b, c]);
  });

  it('starts the trial earlier when a probe is answered', () => {
    const pods = fixture(3);
    pods.completed(a, outcomes.reset, 5);
    pods.probed(a);
    expect(pods.entry(a)).toMatchObject({ probation: 1, suspect: false });
    pods.completed(a, outcomes.status);
    pods.probed(a);
    expect(pods.usable).toEqual([b, c]);
  });

  it('does not start it earlier after a clean close and a new connection', () => {
    const pods = fixture(3);
    pods.completed(a, outcomes.timeout, 5);
    pods.disconnected(a);
    pods.connected(a);
    expect(pods.usable).toEqual([b, c]);
  });

  describe('by failure rate', () => {
    /** `count` calls on `address`, every `nth` of which fails. */
    function traffic(pods: StageFixture, address: string, count: number, nth: number): void {
      for (let call = 1; call <= count; call++) {
        pods.completed(address, call % nth === 0 ? outcomes.status : outcomes.success);
      }
    }

    it('ejects an endpoint that fails a third of its calls while the others are healthy', () => {
      const pods = fixture(2);
      traffic(pods, b, 200, 1_000);
      traffic(pods, a, 48, 3);
      expect(pods.usable).toEqual([a, b]);
      traffic(pods, a, 3, 3);
      expect(pods.usable).toEqual([b]);
      expect(pods.events).toEqual([`ejected ${a}: 33 % of its calls failed, 0 % on other endpoints (last: status)`]);
    });

    it('ejects only an endpoint that is as many times worse than the others as `timesWorse` says', () => {
      for (const [timesWorse, usable] of [
        [3, [b]],
        [20, [a, b]],
      ] as const) {
        const pods = fixture(2, { timesWorse });
        traffic(pods, b, 200, 20);
        traffic(pods, a, 51, 3);
        expect(pods.usable).toEqual(usable);
      }
    });

    it('ejects none when all fail alike', () => {
      const pods = fixture(3);
      for (let round = 0; round < 300; round++) {
        for (const address of [a, b, c]) traffic(pods, address, 3, 3);
      }
      expect(pods.events).toEqual([]);
    });

    it('does not compare with endpoints that left', () => {
      const pods = fixture(3, { consecutiveFailures: Number.POSITIVE_INFINITY });
      pods.completed(c, outcomes.status, 40); // too few to be judged by
      pods.set([a, b]);
      traffic(pods, b, 200, 1_000);
      traffic(pods, a, 51, 3);
      expect(pods.usable).toEqual([b]);
    });

    it('does not count endpoints that left as endpoints without failures', () => {
      const pods = fixture(30, { consecutiveFailures: Number.POSITIVE_INFINITY });
      pods.set([a, b]);
      traffic(pods, b, 48, 4);
      traffic(pods, a, 60, 2);
      // A half is no three times a quarter.
      expect(pods.events).toEqual([]);
    });

    it('forgets the past of an endpoint that it restores', () => {
      const pods = fixture(2);
      traffic(pods, b, 200, 1_000);
      traffic(pods, a, 51, 3);
      pods.clock.advance(1_101);
      pods.completed(a, outcomes.success);
      traffic(pods, a, 48, 3);
      expect(pods.usable).toEqual([a, b]);
    });
  });

  describe('the number of ejected endpoints', () => {
    // What is left when k of n pods fail, for the small Services people have. 'all' = panic.
    const left: Record<number, (number | 'all')[]> = {
      1: ['all'],
      2: [1, 'all'],
      3: [2, 'all', 'all'],
      4: [3, 2, 'all', 'all'],
      5: [4, 3, 'all', 'all', 'all'],
      6: [5, 4, 3, 'all', 'all', 'all'],
      7: [6, 5, 4, 'all', 'all', 'all', 'all'],
      8: [7, 6, 5, 4, 'all', 'all', 'all', 'all'],
      9: [8, 7, 6, 5, 'all', 'all', 'all', 'all', 'all'],
      10: [9, 8, 7, 6, 5, 'all', 'all', 'all', 'all', 'all'],
    };
    for (const [n, rows] of Object.entries(left)) {
      it(`for ${n} pods`, () => {
        rows.forEach((expected, index) => {
          const pods = fixture(Number(n));
          for (const address of addresses(index + 1)) pods.completed(address, outcomes.timeout, 5);
          expect(pods.usable.length, `${index + 1} failing`).toBe(expected === 'all' ? Number(n) : expected);
        });
      });
    }

    it('can be limited to a smaller share, but one may always be ejected', () => {
      const pods = fixture(5, { maxEjectedRatio: 0.1 });
      pods.completed(a, outcomes.timeout, 5);
      pods.completed(b, outcomes.timeout, 5);
      expect(pods.usable).toEqual([b, c, d, e]);
      expect(pods.entry(b)).toMatchObject({ overLimit: true });
      pods.completed(b, outcomes.success);
      expect(pods.entry(b)).toEqual(expect.not.objectContaining({ overLimit: true }));
    });

    it('is rounded down: three tenths of five pods are one, and standby endpoints do not count', () => {
      const active = new Set(addresses(5));
      const standby: StageFactory = () => ({
        apply: (set) => set.map((entry) => (active.has(entry.endpoint.address) ? entry : { ...entry, weight: 0 })),
      });
      const pods = new StageFixture([standby, outlierEjection({ maxEjectedRatio: 0.3 }), panic()]);
      pods.set(addresses(10));
      pods.completed(a, outcomes.timeout, 5);
      pods.completed(b, outcomes.timeout, 5);
      expect(pods.usable).toEqual([b, c, d, e]);
    });

    it('includes one that was held back as soon as there is room', () => {
      const pods = fixture(5, { maxEjectedRatio: 0.1 });
      pods.completed(a, outcomes.timeout, 5);
      pods.completed(b, outcomes.timeout, 5);
      pods.clock.advance(1_101);
      expect(pods.usable).toEqual([a, c, d, e]);
    });
  });

  it('uses all endpoints in a panic, and starts with the shortest ejection again when it is over', () => {
    const pods = fixture(5);
    for (const address of [a, b]) {
      pods.completed(address, outcomes.timeout, 5);
      for (const waitMs of [1_101, 2_201, 4_401]) {
        pods.clock.advance(waitMs);
        pods.completed(address, outcomes.timeout);
      }
    }
    pods.clock.advance(0);
    pods.events.length = 0;
    pods.completed(c, outcomes.timeout, 5);
    expect(pods.usable).toEqual([a, b, c, d, e]);
    expect(pods.events).toEqual(['panic on 3/5']);
    pods.completed(a, outcomes.timeout);
    expect(pods.usable).toEqual([a, b, c, d, e]);
    pods.completed(c, outcomes.success);
    expect(pods.usable).toEqual([c, d, e]);
    expect(pods.events.slice(1).map((event) => event.split(':')[0])).toEqual([
      `ejected ${a}`,
      `ejected ${b}`,
      'panic off 2/5',
    ]);
    pods.clock.advance(1_101);
    expect(pods.usable).toEqual([a, b, c, d, e]);
  });

  it('runs the stages a few times, not a thousand, when a thousand endpoints fail one after the other', () => {
    const pods = fixture(1_000);
    const before = pods.runs;
    // A turn each, all within a second.
    for (const address of addresses(1_000)) {
      pods.completed(address, outcomes.timeout, 5);
      pods.clock.advance(1);
    }
    expect(pods.usable).toHaveLength(1_000);
    expect(pods.runs - before).toBeLessThan(50);
    for (const address of addresses(1_000)) {
      pods.completed(address, outcomes.success);
      pods.clock.advance(1);
    }
    // Those left when the panic ended were ejected for the shortest time.
    expect(pods.usable.length).toBeGreaterThanOrEqual(500);
    pods.clock.advance(1_150);
    for (const address of addresses(1_000)) pods.completed(address, outcomes.success);
    pods.clock.advance(50);
    expect(
      pods.result.entries.some(({ overLimit, suspect, probation }) => overLimit || suspect || probation !== undefined),
    ).toBe(false);
    expect(pods.runs - before).toBeLessThan(120);
  });

  it('takes effect at once while verdicts are few, however many come in one turn', () => {
    const pods = fixture(100);
    pods.inOneTurn(() => {
      for (const address of addresses(40)) pods.completed(address, outcomes.timeout, 5);
    });
    expect(pods.usable).toHaveLength(60);
    pods.completed('10.0.0.41', outcomes.timeout, 5);
    expect(pods.usable).toHaveLength(59);
  });

  it('keeps no timer and no record of endpoints that left', () => {
    const pods = fixture(4);
    pods.completed(a, outcomes.timeout, 5);
    expect(pods.clock.timers).toBe(1);
    pods.set([b, c, d]);
    expect(pods.clock.timers).toBe(0);
    pods.set([a, b, c, d]);
    expect(pods.usable).toEqual([a, b, c, d]);
    pods.completed(a, outcomes.timeout, 5);
    pods.close();
    expect(pods.clock.timers).toBe(0);
  });

  it('rejects invalid options', () => {
    for (const bad of [
      { consecutiveFailures: 0 },
      // Per cent, where a share is wanted: it would never eject.
      { failureRatio: 20 },
      { maxEjectedRatio: 0.6 },
      { causes: ['connect'] },
      { baseEjectionMs: 5_000, maxEjectionMs: 1_000 },
      { percent: 5 },
    ]) {
      expect(() => outlierEjection(bad as never), JSON.stringify(bad)).toThrowError(
        expect.objectContaining({ code: 'EVENKEEL_OPTION' }),
      );
    }
  });

  it('names an invalid cause', () => {
    expect(() => outlierEjection({ causes: ['timeout', 'slow' as never] })).toThrowError(
      'outlierEjection.causes[] must be one of timeout, reset, status, overload, protocol, got "slow"',
    );
  });
});
