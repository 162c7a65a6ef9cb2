import { describe, expect, it } from 'vitest';
import type { LoadReport, Outcome } from '../../../src/endpoint/outcome.js';
import { type ReportedOptions, reported } from '../../../src/load/reported.js';
import { leastLoaded, neverQueue, shortestExpectedDelay } from '../../../src/picker/least-loaded.js';
import { p2c } from '../../../src/picker/p2c.js';
import type { Picker, PickerFactory } from '../../../src/picker/picker.js';
import { weightedRoundRobin } from '../../../src/picker/weighted-round-robin.js';
import { drawIndex } from '../../../src/runtime/rng.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import { pickSet, request, subchannels, type TestSubchannel } from '../../support/fixtures/pick-set.js';

const hostile: readonly [string, LoadReport][] = [
  ['no CPU to speak of', { cpuUtilization: 1e-320, rpsFractional: 100 }],
  ['no CPU at all', { cpuUtilization: 0, rpsFractional: 100 }],
  ['more calls than there are', { cpuUtilization: 0.5, rpsFractional: 1e308 }],
  ['both', { cpuUtilization: 5e-324, rpsFractional: 1.7e308 }],
  ['more errors than there are', { cpuUtilization: 0.5, rpsFractional: 100, eps: 1e308 }],
  ['errors over hardly any call', { cpuUtilization: 0.5, rpsFractional: 5e-324, eps: 1.7e308 }],
  ['a full CPU', { cpuUtilization: 1.7e308, rpsFractional: 100 }],
  ['no number', { cpuUtilization: Number.NaN, rpsFractional: Number.NaN, eps: Number.NaN }],
  ['negative numbers', { cpuUtilization: 0.5, rpsFractional: 100, eps: -1e9 }],
  ['words', { cpuUtilization: 'idle', rpsFractional: '1e9', eps: {} } as never],
];

const pickers: readonly [string, PickerFactory][] = [
  ['weighted round robin', weightedRoundRobin({ updateMs: 10 })],
  ['p2c', p2c()],
  ['p2c of several', p2c({ choices: 3 })],
  ['least loaded', leastLoaded()],
  ['shortest expected delay', shortestExpectedDelay()],
  ['never queue', neverQueue()],
];

/** Shares of `calls` against an even one, with `busy` calls running at a time; the first endpoint reports `report`. */
function shares(
  picker: PickerFactory,
  pods: number,
  busy: number,
  report: LoadReport,
  options: ReportedOptions,
): number[] {
  const rng = seededRng(pods);
  const members = subchannels(pods, reported({ blackoutMs: 0, ...options }));
  let current: Picker | undefined;
  const counts = new Array<number>(pods).fill(0);
  const running: number[] = [];
  const calls = 4_000;
  const end = (nowMs: number): void => {
    const [index] = running.splice(drawIndex(rng, running.length), 1) as [number];
    const honest = { cpuUtilization: 0.4 + 0.2 * rng.next(), rpsFractional: 90 + 20 * rng.next(), eps: 1 };
    const outcome: Outcome = { kind: 'success', report: index === 0 ? report : honest };
    const subchannel = members[index] as TestSubchannel;
    subchannel.end(nowMs, nowMs, outcome, nowMs);
    current?.ended?.(subchannel);
  };
  for (let call = 0; call < calls; call++) {
    const nowMs = 1 + call / 10;
    // A change of the set now and then: what went wrong must not be carried on either.
    if (call % 500 === 0) current = picker(pickSet(members), current, { rng });
    if (running.length === busy) end(nowMs);
    const picked = (current as Picker).pick(request({ nowMs })) as TestSubchannel;
    picked.start(nowMs);
    const index = members.indexOf(picked);
    counts[index] = (counts[index] as number) + 1;
    running.push(index);
  }
  return counts.map((count) => (count * pods) / calls);
}

describe.each(pickers)('%s with server reports, one of which lies', (_picker, picker) => {
  describe.each([2, 3, 4, 10])('with %i endpoints', (pods) => {
    it.each(hostile)('%s: no other endpoint is starved', (_lie, report) => {
      for (const options of [{}, { errorPenalty: 0 }]) {
        const others = shares(picker, pods, 2 * pods, report, options).slice(1);
        // Half of an even share where two report, two thirds of it among four, more among many.
        expect(Math.min(...others)).toBeGreaterThan(0.45);
      }
    });
  });
});

describe.each([2, 4])('with %i endpoints, one call at a time', (pods) => {
  const sharing = [pickers[0], pickers[1], pickers[3]] as typeof pickers;
  describe.each(sharing)('%s', (_picker, picker) => {
    it.each(hostile)('%s: no other endpoint is starved', (_lie, report) => {
      const others = shares(picker, pods, 1, report, {}).slice(1);
      expect(Math.min(...others)).toBeGreaterThan(0.45);
    });
  });
});

describe.each(pickers)('%s with server reports, one of which always claims to be idle', (_picker, picker) => {
  it.each([1, 4, 20])('with 10 endpoints, %i calls at a time: it gets at most twice its share', (busy) => {
    for (const report of [{ cpuUtilization: 0 }, { cpuUtilization: 0.001, rpsFractional: 1 }]) {
      expect(shares(picker, 10, busy, report, {})[0]).toBeLessThanOrEqual(2);
    }
  });
});
