import { expect, it } from 'vitest';
import { type AskForReports, checkAskForReports, ReportAsking } from '../../../src/adapter/kit/report-asking.js';

const asked = (asking: ReportAsking, requests: number, rule: AskForReports = true): number =>
  Array.from({ length: requests }, () => asking.next(rule)).filter(Boolean).length;

it('no request asks a pod for reports that has not announced them, even if it sends them', () => {
  const asking = new ReportAsking();
  expect(asked(asking, 1_000)).toBe(0);
  asking.reported();
  expect(asked(asking, 1_000)).toBe(0);
});

it('requests ask a pod that has announced reports, until it no longer sends them', () => {
  const asking = new ReportAsking();
  asking.announced();
  for (let request = 0; request < 1_000; request++) {
    expect(asking.next(true)).toBe(true);
    asking.reported();
  }
  expect(asked(asking, 1_000)).toBe(64);
  asking.announced();
  expect(asked(asking, 10)).toBe(10);
});

it('another pod at the same address starts again', () => {
  const asking = new ReportAsking();
  asking.announced();
  asking.forget();
  expect(asked(asking, 100)).toBe(0);
});

it('with `always` every request asks, with false none', () => {
  const asking = new ReportAsking();
  expect(asked(asking, 100, 'always')).toBe(100);
  asking.announced();
  expect(asked(asking, 100, false)).toBe(0);
});

it('the option is one of three values', () => {
  expect([undefined, true, false, 'always'].map((value) => checkAskForReports('askForReports', value))).toEqual([
    true,
    true,
    false,
    'always',
  ]);
  expect(() => checkAskForReports('askForReports', 'never')).toThrow("askForReports must be true, false or 'always'");
});
