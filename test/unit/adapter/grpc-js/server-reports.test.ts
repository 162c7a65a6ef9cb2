import { Metadata } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import {
  decodeHealthResponse,
  decodeLoadReport,
  encodeHealthRequest,
  loadReportOf,
  readFields,
} from '../../../../src/adapter/grpc-js/server-reports.js';

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');

describe('wire format', () => {
  it('reads every kind of field', () => {
    const fields: [number, unknown][] = [];
    const message = hex('08 96 01 | 11 000000000000f83f | 1a 03 616263 | 25 01020304 | a0 06 07'.replaceAll('|', ''));
    readFields(message, (field, value) => fields.push([field, typeof value === 'number' ? value : value.toString()]));
    expect(fields).toEqual([
      [1, 150],
      [2, 1.5],
      [3, 'abc'],
      [100, 7],
    ]);
  });

  it.each(['08', '08 ff', '11 00', '1a 05 61', '25 01', '0b', '08 ffffffffffffffffffffff01'])(
    '%s is not a message',
    (bytes) => {
      expect(() => readFields(hex(bytes), () => {})).toThrow(RangeError);
    },
  );
});

describe('health messages', () => {
  it('ask for a service by name', () => {
    expect(encodeHealthRequest('')).toEqual(Buffer.alloc(0));
    expect(encodeHealthRequest('a.B')).toEqual(hex('0a 03 612e42'));
    const long = encodeHealthRequest('x'.repeat(300));
    expect(long.subarray(0, 3)).toEqual(hex('0a ac 02'));
    expect(long.length).toBe(303);
  });

  it('answer with a status; a missing one is UNKNOWN', () => {
    expect(decodeHealthResponse(hex('08 01'))).toBe(1);
    expect(decodeHealthResponse(hex(''))).toBe(0);
    expect(decodeHealthResponse(hex('08 02 08 01'))).toBe(1);
  });
});

describe('load reports', () => {
  /** cpu 0.5, mem 0.25, rps 3 (deprecated), request_cost, utilization, rps_fractional 12, eps 1, named queue 7, app 0.75. */
  const message = hex(
    '09000000000000e03f 11000000000000d03f 1803 22 0c 0a0161 11000000000000f03f 2a 0c 0a0162 11000000000000f03f' +
      '310000000000002840 39000000000000f03f 42 10 0a057175657565 110000000000001c40 49000000000000e83f',
  );
  const report = {
    cpuUtilization: 0.5,
    memUtilization: 0.25,
    rpsFractional: 12,
    eps: 1,
    applicationUtilization: 0.75,
    namedMetrics: { queue: 7 },
  };

  it('are read from the binary trailer of gRPC', () => {
    const metadata = new Metadata();
    metadata.set('endpoint-load-metrics-bin', message);
    expect(loadReportOf(metadata.getMap())).toEqual(report);
  });

  it('are read from the text that HTTP servers send', () => {
    const metadata = new Metadata();
    metadata.set('endpoint-load-metrics', 'TEXT cpu_utilization=0.5');
    expect(loadReportOf(metadata.getMap())).toEqual({ cpuUtilization: 0.5 });
    expect(loadReportOf({})).toBeUndefined();
  });

  it('leave out invalid measures, and are undefined if nothing is left', () => {
    expect(decodeLoadReport(hex('09 000000000000e0bf 11 000000000000f87f'))).toBeUndefined();
    expect(decodeLoadReport(message.subarray(0, 15))).toBeUndefined();
    expect(decodeLoadReport(Buffer.alloc(5_000))).toBeUndefined();
    const named = decodeLoadReport(hex('42 14 0a095f5f70726f746f5f5f 110000000000001c40'))?.namedMetrics;
    expect(Object.entries(named ?? {})).toEqual([['__proto__', 7]]);
  });
});
