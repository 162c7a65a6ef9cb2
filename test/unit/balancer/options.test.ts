import { describe, expect, it } from 'vitest';
import { createBalancer } from '../../../src/balancer/balancer.js';
import { checkBalancingOptions, resolveBalancerOptions } from '../../../src/balancer/balancer-options.js';
import { inFlight, inFlightRule } from '../../../src/load/in-flight.js';
import type { RuledLoad } from '../../../src/load/load-rule.js';
import { peakEwma } from '../../../src/load/peak-ewma.js';
import { leastLoaded, neverQueue, shortestExpectedDelay } from '../../../src/picker/least-loaded.js';
import { p2c } from '../../../src/picker/p2c.js';
import { random } from '../../../src/picker/random.js';
import { roundRobin } from '../../../src/picker/round-robin.js';
import { activeHealth } from '../../../src/stage/active-health.js';
import { conditions } from '../../../src/stage/conditions.js';
import { outlierEjection } from '../../../src/stage/outlier-ejection.js';
import { panic } from '../../../src/stage/panic.js';
import { pushback } from '../../../src/stage/pushback.js';
import { slowStart } from '../../../src/stage/slow-start.js';
import { subset } from '../../../src/stage/subset.js';
import { zone } from '../../../src/stage/zone.js';
import { topologyHints } from '../../../src/stage/zone-hints.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';
import { FakeTransport } from '../../../src/testing/fake-transport.js';

const parts = { resolver: new FakeResolver(), transport: new FakeTransport() };
const message = (options: object): string => {
  try {
    resolveBalancerOptions({ ...parts, ...options } as never);
    return 'taken';
  } catch (error) {
    expect(error).toMatchObject({ code: 'EVENKEEL_OPTION' });
    return (error as Error).message;
  }
};

describe('options of a balancer', () => {
  it.each([
    [
      { observer: { resovled: () => {} } },
      'observer has no option "resovled" (did you mean "resolved"?); it knows resolved',
    ],
    [{ observer: { resolved: 'yes' } }, 'observer.resolved must be a function, got "yes"'],
    [{ observer: null }, 'observer must be an object of hooks'],
    [{ observer: [] }, 'observer must be an object of hooks, got an empty array'],
    [{ clock: {} }, 'clock.now must be a function'],
    [{ clock: null }, 'clock must be a clock with now, timer and defer, got null'],
    [{ rng: Math.random }, 'rng.next must be a function'],
    [{ retry: { attempts: 1 } }, 'retry has no option "attempts"'],
    [{ retry: { budget: { ratio: 20 } } }, 'retry.budget.ratio must be a number from 0 to 1, got 20'],
    [{ stages: {} }, 'stages must be a list of stages'],
    [{ stages: [{}] }, 'stages[0] must be a stage such as conditions(), with its parentheses, got an object'],
    [{ pool: { maxAge: 1 } }, 'pool has no option "maxAge"'],
    [{ resolver: 'nonsense' }, 'target must be'],
    [{ load: peakEwma }, 'load must be a load such as inFlight(), with its parentheses, got the function peakEwma'],
    [{ load: () => ({}) }, 'load must be a load such as inFlight(), with its parentheses'],
    [{ picker: p2c }, 'picker must be a picker such as p2c(), with its parentheses'],
    [{ picker: roundRobin }, 'picker must be a picker such as p2c(), with its parentheses'],
    [{ waitForEndpoints: 'yes' }, 'waitForEndpoints must be true or false'],
  ])('with %o are refused', (options, words) => {
    expect(message(options)).toContain(words);
  });

  it.each([activeHealth, outlierEjection, panic, pushback, slowStart, subset, topologyHints, zone])(
    'with a stage passed without its parentheses are refused, with its position: %o',
    (maker) => {
      const made = (): unknown => createBalancer({ ...parts, stages: [conditions(), maker as never] });
      expect(made).toThrow(
        `stages[1] must be a stage such as conditions(), with its parentheses, got the function ${maker.name}`,
      );
    },
  );

  it('with a list of stages within the list are refused', () => {
    expect(message({ stages: [[conditions()], slowStart()] })).toBe(
      'stages[0] must be a stage, not a list of them, got an array',
    );
  });

  it.each([conditions, inFlight, leastLoaded, neverQueue, panic, random, roundRobin, shortestExpectedDelay])(
    'are refused for functions that have none: %o',
    (maker) => {
      for (const given of [{ weights: [1, 2] }, {}, null, 5]) {
        const make = maker as (options: unknown) => unknown;
        expect(() => make(given)).toThrowError(
          expect.objectContaining({
            code: 'EVENKEEL_OPTION',
            message: expect.stringContaining(`${maker.name}() takes no options, got `),
          }),
        );
        expect(make(undefined)).toBeDefined();
      }
    },
  );

  it('with a picker or load that throws when it is tried are accepted: the balancer replaces it', () => {
    const broken = (): never => {
      throw new Error('broken');
    };
    expect(message({ load: broken, picker: broken })).toBe('taken');
  });

  it('without a load get calls in flight with a picker that reads no load', () => {
    const loadOf = (options: object) => {
      const load = resolveBalancerOptions({ ...parts, ...options }).load({ loads: [] } as never) as RuledLoad;
      return load.rule === inFlightRule ? 'inFlight' : load.rule.constructor.name;
    };
    expect(loadOf({})).toBe('RelativeLatencyRule');
    expect(loadOf({ picker: p2c() })).toBe('RelativeLatencyRule');
    expect(loadOf({ picker: roundRobin() })).toBe('inFlight');
    expect(loadOf({ picker: random() })).toBe('inFlight');
    expect(loadOf({ picker: roundRobin(), load: peakEwma() })).toBe('PeakEwmaRule');
  });

  it('accept observers that are instances with fields of their own, and missing hooks', () => {
    class Counter {
      count = 0;
      resolved(): void {
        this.count++;
      }
    }
    expect(message({ observer: new Counter() })).toBe('taken');
    expect(message({ observer: { resolved: undefined } })).toBe('taken');
    expect(message({ observer: Object.create(null) })).toBe('taken');
  });

  it('with a longest pause below the first are refused; unset, it follows the first', () => {
    expect(message({ pool: { reconnectInitialMs: 500, reconnectMaxMs: 400 } })).toContain('pool.reconnectMaxMs');
    expect(resolveBalancerOptions({ ...parts, pool: { reconnectInitialMs: 9_000 } }).pool).toMatchObject({
      reconnectInitialMs: 9_000,
      reconnectMaxMs: 9_000,
    });
  });

  it('are checked for entry points before they have a transport', () => {
    checkBalancingOptions({});
    checkBalancingOptions({ waitTimeoutMs: 5 });
    expect(() => checkBalancingOptions({ retry: { maxAttempts: 0 } })).toThrow('retry.maxAttempts');
    expect(() => checkBalancingOptions({ waitTimeoutMs: -5 })).toThrow('waitTimeoutMs');
  });
});
