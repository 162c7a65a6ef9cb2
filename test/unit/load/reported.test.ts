import { describe, expect, it } from 'vitest';
import type { LoadReport } from '../../../src/endpoint/outcome.js';
import type { Load } from '../../../src/load/load.js';
import { parseLoadReport } from '../../../src/load/orca.js';
import { type ReportedOptions, reported } from '../../../src/load/reported.js';

function having(report: LoadReport, options?: ReportedOptions, nowMs = 0): Load {
  const load = reported(options)();
  load.start(nowMs);
  load.end(nowMs, nowMs, { kind: 'success', report });
  return load;
}

describe('reported load', () => {
  it('is utilization times calls in flight, including the next one', () => {
    const load = having({ cpuUtilization: 0.4 });
    expect(load.value(0)).toBe(400);
    load.start(0);
    expect(load.value(0)).toBe(800);
  });

  it("prefers the application's utilization to the CPU's, and counts errors", () => {
    expect(having({ cpuUtilization: 0.4, applicationUtilization: 0.6 }).value(0)).toBe(600);
    expect(having({ cpuUtilization: 0.4, rpsFractional: 10, eps: 2 }).value(0)).toBe(600);
    expect(having({ cpuUtilization: 0.4, rpsFractional: 10, eps: 2 }, { errorPenalty: 0 }).value(0)).toBe(400);
  });

  it('counts an endpoint that reports more as busier, whatever the unit of the metric', () => {
    const options = { metric: 'queue_bytes' };
    const values = [0.5, 3_000, 2_500_000, 4_294_968, 1e12, 1e300, 1.7e308].map((bytes) =>
      having({ namedMetrics: { queue_bytes: bytes } }, options).value(0),
    );
    for (const value of values) expect(value).toBeGreaterThan(0);
    expect(values).toEqual([...values].sort((a, b) => a - b));
    expect(new Set(values.slice(0, 5)).size).toBe(5);
    // And all of that is more than the same with nothing in flight.
    const crowded = having({ namedMetrics: { queue_bytes: 2_500_000 } }, options);
    crowded.start(0);
    expect(crowded.value(0)).toBeGreaterThan(values[2] as number);
  });

  it.each([5, '', null])('refuses %j as a metric', (metric) => {
    expect(() => reported({ metric: metric as never })).toThrowError(
      expect.objectContaining({ code: 'EVENKEEL_OPTION', message: expect.stringContaining('reported.metric') }),
    );
  });

  it('can use a named metric', () => {
    expect(having({ cpuUtilization: 0.4, namedMetrics: { queue: 0.8 } }, { metric: 'queue' }).value(0)).toBe(800);
  });

  it('counts an endpoint without a report as half busy, and forgets reports after expireAfterMs', () => {
    expect(reported()().value(0)).toBe(500);
    const load = having({ cpuUtilization: 0.9 }, { expireAfterMs: 1_000 });
    expect(load.value(999)).toBe(900);
    expect(load.value(1_000)).toBe(500);
  });

  it('has a rate after blackoutMs of reports, until they expire', () => {
    const load = having({ cpuUtilization: 0.5, rpsFractional: 100 });
    expect(load.rate?.(9_999)).toBeUndefined();
    expect(load.rate?.(10_000)).toBe(200);
    expect(load.rate?.(180_000)).toBeUndefined();
    // A new start after a gap: blacked out again.
    load.start(200_000);
    load.end(200_000, 200_000, { kind: 'success', report: { cpuUtilization: 0.5, rpsFractional: 100 } });
    expect(load.rate?.(205_000)).toBeUndefined();
  });

  it('ignores invalid reports', () => {
    for (const cpuUtilization of [-1, Number.NaN, Number.POSITIVE_INFINITY, '0.1', null, {}, 5n] as never[]) {
      expect(having({ cpuUtilization }).value(0)).toBe(500);
      expect(having({ cpuUtilization: 0.4, rpsFractional: cpuUtilization, eps: 5 }).value(0)).toBe(400);
      expect(having({ cpuUtilization: 0.4, rpsFractional: 10, eps: cpuUtilization }).value(0)).toBe(400);
      expect(having({ applicationUtilization: cpuUtilization, cpuUtilization: 0.4 }).value(0)).toBe(400);
    }
  });

  it('counts at most as many errors as calls, and never computes NaN from them', () => {
    expect(having({ cpuUtilization: 0.4, rpsFractional: 10, eps: 1e308 }).value(0)).toBe(1_400);
    const none = having({ cpuUtilization: 0.4, rpsFractional: 1e-300, eps: 1e308 }, { errorPenalty: 0 });
    expect([none.value(0), none.rate?.(20_000)]).toEqual([400, 1e-300 / 0.4]);
  });

  it('computes no rate from a utilization below 0.05, and ignores rates that are not finite', () => {
    expect(having({ cpuUtilization: 1e-320, rpsFractional: 10 }).rate?.(20_000)).toBe(200);
    expect(having({ cpuUtilization: 0, rpsFractional: 10 }).rate?.(20_000)).toBe(200);
    expect(having({ cpuUtilization: 0.4, rpsFractional: 1.7e308 }).rate?.(20_000)).toBeUndefined();
  });

  describe('over several endpoints', () => {
    const saying = (
      ...utilizations: number[]
    ): [Load[], (load: Load, cpuUtilization: number, nowMs: number) => void] => {
      const factory = reported({ expireAfterMs: 10_000 });
      const report = (load: Load, cpuUtilization: number, nowMs: number): void => {
        load.start(nowMs);
        load.end(nowMs, nowMs, { kind: 'success', report: { cpuUtilization } });
      };
      const loads = utilizations.map(() => factory());
      loads.forEach((load, index) => {
        report(load, utilizations[index] as number, 0);
      });
      return [[...loads, factory()], report];
    };
    const values = (loads: readonly Load[], nowMs = 0): number[] => loads.map((load) => load.value(nowMs));

    it('counts no endpoint as less busy than 0.7 times the usual, or as more than ten times', () => {
      expect(values(saying(0, 0.4, 0.6, 0.8, 1e300)[0])).toEqual([420, 420, 600, 800, 6_000, 600]);
      // Of two, the one that claims to be idle does not say what is usual.
      expect(values(saying(0, 1)[0])).toEqual([700, 1_000, 1_000]);
      // Nor does one alone, or nobody else would ever be asked.
      expect(values(saying(0)[0])).toEqual([350, 500]);
    });

    it('computes the usual load again, from the reports that are believed', () => {
      const [loads, report] = saying(0.4, 0.4, 0.4);
      const [first, second, third] = loads as [Load, Load, Load];
      for (const load of [first, second, third]) report(load, 0.8, 999);
      expect(values(loads, 999)).toEqual([800, 800, 800, 400]);
      report(first, 0.8, 1_000);
      expect(values(loads, 1_000)).toEqual([800, 800, 800, 800]);
      report(first, 0.2, 11_500);
      report(second, 0.2, 12_500);
      expect(values(loads, 12_500)).toEqual([200, 200, 200, 200]);
    });

    it('uses the last 1,024 of thousands of endpoints to report, and forgets earlier ones', () => {
      const factory = reported();
      for (let index = 0; index < 5_000; index++) {
        const load = factory();
        load.start(index);
        load.end(index, index, { kind: 'success', report: { cpuUtilization: index < 3_000 ? 0.2 : 0.8 } });
      }
      expect(factory().value(5_000)).toBe(800);
    });
  });
});

describe('parseLoadReport', () => {
  it.each([
    ['TEXT cpu_utilization=0.3, rps_fractional=12.5, eps=1', { cpuUtilization: 0.3, rpsFractional: 12.5, eps: 1 }],
    ['cpu_utilization=0.3', { cpuUtilization: 0.3 }],
    ['TEXT mem_utilization = 0.5 ,application_utilization=1.2', { memUtilization: 0.5, applicationUtilization: 1.2 }],
    ['TEXT named_metrics.queue=0.7, named_metrics.a.b=2', { namedMetrics: { queue: 0.7, 'a.b': 2 } }],
    [
      'JSON {"cpu_utilization": 0.3, "named_metrics": {"queue": 7}}',
      { cpuUtilization: 0.3, namedMetrics: { queue: 7 } },
    ],
    ['JSON {"cpuUtilization": 0.3, "rpsFractional": 5}', { cpuUtilization: 0.3, rpsFractional: 5 }],
    ['{"eps": 2}', { eps: 2 }],
  ])('reads %s', (header, report) => {
    expect(parseLoadReport(header)).toEqual(report);
  });

  it.each([
    '',
    'TEXT',
    'BIN CZqZmZmZmbk/',
    'JSON {',
    'JSON null',
    'JSON [1]',
    'TEXT cpu_utilization=',
    'TEXT cpu_utilization=high',
    'TEXT cpu_utilization=-0.3',
    'JSON {"cpu_utilization": "0.3"}',
    'TEXT cpu_utilization=Infinity',
    'TEXT constructor=1, __proto__=2',
    `TEXT cpu_utilization=0.3, ${'x'.repeat(5_000)}`,
  ])('finds nothing useful in %j', (header) => {
    expect(parseLoadReport(header)).toBeUndefined();
  });

  it('keeps the valid parts of a report that has invalid ones', () => {
    expect(parseLoadReport('TEXT cpu_utilization=0.3, nonsense, mem_utilization=x, eps=2')).toEqual({
      cpuUtilization: 0.3,
      eps: 2,
    });
  });

  it('handles metrics named like members of Object.prototype, and keeps at most 64', () => {
    const report = parseLoadReport('JSON {"named_metrics": {"__proto__": 1, "toString": 2}}');
    expect({ ...report?.namedMetrics }).toEqual({ ['__proto__']: 1, toString: 2 });
    const many = Array.from({ length: 100 }, (_, index) => `named_metrics.m${index}=1`).join(',');
    expect(Object.keys(parseLoadReport(many)?.namedMetrics ?? {})).toHaveLength(64);
  });
});
