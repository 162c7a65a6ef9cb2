import { Metadata } from '@grpc/grpc-js';
import { describe, it } from 'vitest';
import { decodeLoadReport, loadReportOf } from '../../src/adapter/grpc-js/server-reports.js';
import type { LoadReport } from '../../src/endpoint/outcome.js';
import { parseLoadReport } from '../../src/load/orca.js';
import { reported } from '../../src/load/reported.js';
import { drawIndex, type Rng } from '../../src/runtime/rng.js';
import { eachCase, enough, LIMIT_MS, mutated, oddNumbers, oneOf } from './cases.js';

const names = [
  'cpu_utilization',
  'application_utilization',
  'mem_utilization',
  'rps_fractional',
  'eps',
  'named_metrics.queue',
  'named_metrics.__proto__',
  'constructor',
];
const pieces = [
  '=',
  ',',
  '{',
  '}',
  '"',
  ':',
  '1e308',
  '1e-320',
  '1e999',
  '-1',
  'NaN',
  'Infinity',
  'TEXT ',
  'JSON ',
  'BIN ',
  '0x1f',
  ' ',
];

function number(rng: Rng): number {
  return rng.next() < 0.5 ? rng.next() : oneOf(rng, oddNumbers);
}

function header(rng: Rng): string {
  const pairs = Array.from({ length: 1 + drawIndex(rng, 5) }, () => [oneOf(rng, names), number(rng)] as const);
  const text =
    rng.next() < 0.5
      ? pairs.map(([name, value]) => `${name}=${value}`).join(',')
      : JSON.stringify({ ...Object.fromEntries(pairs), named_metrics: { queue: number(rng) } });
  return oneOf(rng, ['', 'TEXT ', 'JSON ']) + text;
}

/** A message of protobuf with fields of the numbers ORCA has, and others. */
function message(rng: Rng): Buffer {
  const fields = Array.from({ length: 1 + drawIndex(rng, 6) }, () => {
    const double = Buffer.alloc(9);
    double[0] = (oneOf(rng, [1, 2, 6, 7, 9, 3]) << 3) | 1;
    double.writeDoubleLE(number(rng), 1);
    if (rng.next() < 0.7) return double;
    const entry = Buffer.concat([
      Buffer.from([0x0a, 5]),
      Buffer.from('queue'),
      Buffer.from([0x11]),
      double.subarray(1),
    ]);
    return Buffer.concat([Buffer.from([(8 << 3) | 2, entry.length]), entry]);
  });
  return Buffer.concat(fields);
}

/** Whether a report says only what can be reckoned with, and not too much. */
function check(report: LoadReport | undefined): void {
  if (report === undefined) return;
  const { namedMetrics = {}, ...plain } = report;
  const values = [...Object.values(plain), ...Object.values(namedMetrics)];
  if (values.length > 2_000) throw new Error(`${values.length} numbers`);
  for (const value of values)
    if (!Number.isFinite(value) || (value as number) < 0) throw new Error(`a report of ${value}`);
}

/** What the load makes of a report is a number a picker can use, at any time, with any setting. */
function checkLoad(rng: Rng, reports: readonly LoadReport[]): void {
  const metric = rng.next() < 0.3 ? { metric: 'queue' } : {};
  const load = reported({ blackoutMs: 0, errorPenalty: oneOf(rng, [0, 1, 1_000]), ...metric })();
  let nowMs = 1;
  for (const report of reports) {
    load.start(nowMs);
    load.end(nowMs, nowMs + 1, { kind: 'success', report });
    nowMs += oneOf(rng, [0, 1, 1_000, 180_000]);
    const value = load.value(nowMs);
    if (!Number.isFinite(value) || value <= 0) throw new Error(`a load of ${value} by ${JSON.stringify(report)}`);
    const rate = load.rate?.(nowMs);
    if (rate !== undefined && (!Number.isFinite(rate) || rate <= 0))
      throw new Error(`a rate of ${rate} by ${JSON.stringify(report)}`);
  }
}

describe('load reports', () => {
  it('over HTTP: every number that is read is finite, and so is the load', { timeout: LIMIT_MS }, async () => {
    let read = 0;
    await eachCase((rng) => {
      const reports: LoadReport[] = [];
      for (let each = 0; each < 2; each++) {
        const text = header(rng);
        const bytes = rng.next() < 0.5 ? text : mutated(rng, Buffer.from(text), pieces).toString('latin1');
        const report = parseLoadReport(bytes);
        check(report);
        if (report !== undefined) reports.push(report);
      }
      read += reports.length;
      checkLoad(rng, reports);
    });
    enough(read, 5_000);
  });

  it('over gRPC: every number that is read from the binary form is finite, and so is the load', {
    timeout: LIMIT_MS,
  }, async () => {
    let read = 0;
    await eachCase((rng) => {
      const bytes =
        rng.next() < 0.4 ? message(rng) : mutated(rng, message(rng), ['\u0000', '\u007f', 'ÿÿÿÿ', '\u0042\u0042']);
      const report = decodeLoadReport(bytes);
      check(report);
      const metadata = new Metadata();
      metadata.set('endpoint-load-metrics-bin', bytes);
      check(loadReportOf(metadata.getMap()));
      if (report === undefined) return;
      read++;
      checkLoad(rng, [report]);
    });
    enough(read, 3_000);
  });
});
