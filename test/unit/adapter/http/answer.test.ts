import { describe, expect, it } from 'vitest';
import { explainHttp2Answer, outcomeOfAnswer, parseRetryAfter } from '../../../../src/adapter/http/answer.js';
import { reportOf } from '../../../../src/adapter/http/pod-signals.js';
import { createEndpoint } from '../../../../src/endpoint/endpoint.js';

const answer = (status: number, headers: Record<string, unknown> = {}): unknown =>
  outcomeOfAnswer(status, (name) => headers[name], reportOf(headers['endpoint-load-metrics']));

describe('outcomeOfAnswer', () => {
  it.each([200, 204, 301, 304, 400, 401, 404, 409, 418])('%i is a success', (status) => {
    expect(answer(status, { 'retry-after': '3' })).toEqual({ kind: 'success' });
  });

  it.each([500, 502, 503, 504, 599])('%i is a failure', (status) => {
    expect(answer(status)).toEqual({ kind: 'failure', cause: 'status' });
  });

  it('429, and 503 with Retry-After, are pushback', () => {
    expect(answer(429)).toEqual({ kind: 'failure', cause: 'overload' });
    expect(answer(429, { 'retry-after': '2' })).toEqual({ kind: 'failure', cause: 'overload', retryAfterMs: 2_000 });
    expect(answer(503, { 'retry-after': '0' })).toEqual({ kind: 'failure', cause: 'overload', retryAfterMs: 0 });
    expect(answer(500, { 'retry-after': '2' })).toEqual({ kind: 'failure', cause: 'status' });
  });

  it('includes the load report of the pod', () => {
    const report = 'TEXT cpu_utilization=0.3, rps_fractional=12';
    expect(answer(200, { 'endpoint-load-metrics': report })).toEqual({
      kind: 'success',
      report: { cpuUtilization: 0.3, rpsFractional: 12 },
    });
    expect(answer(500, { 'endpoint-load-metrics': report })).toMatchObject({
      kind: 'failure',
      report: { cpuUtilization: 0.3 },
    });
    expect(answer(200, { 'endpoint-load-metrics': 'nonsense' })).toEqual({ kind: 'success' });
    expect(answer(200, { 'endpoint-load-metrics': ['twice', 'given'] })).toEqual({ kind: 'success' });
  });
});

describe('parseRetryAfter', () => {
  const date = 'Wed, 21 Oct 2026 07:28:00 GMT';
  it.each([
    ['120', undefined, 120_000],
    [' 0 ', undefined, 0],
    ['Wed, 21 Oct 2026 07:28:30 GMT', date, 30_000],
    ['999999999', undefined, 3_600_000],
  ])('%j with Date %j is %s ms', (value, sent, expected) => {
    expect(parseRetryAfter(value, sent)).toBe(expected);
  });

  it.each([
    [undefined, undefined],
    ['soon', date],
    [['1', '2'], date],
    ['-5', undefined],
    ['Wed, 21 Oct 2026 07:28:30 GMT', undefined],
    ['Wed, 21 Oct 2026 07:27:00 GMT', date],
  ])('%j with Date %j is ignored', (value, sent) => {
    expect(parseRetryAfter(value, sent)).toBeUndefined();
  });
});

describe('explainHttp2Answer', () => {
  const endpoint = createEndpoint({ address: '10.0.0.1', port: 80 });
  const told = (unparsed: string | undefined): string => {
    const error = new Error('Expected HTTP/');
    explainHttp2Answer(error, endpoint, unparsed);
    return error.message;
  };

  it('says that the pod speaks HTTP/2 only where its settings could not be parsed, and nothing otherwise', () => {
    expect(told('\0\0\x12\x04\0\0\0\0\0')).toContain('10.0.0.1:80 speaks HTTP/2 only; useH2c');
    for (const other of [undefined, '', 'SSH-2.0', '\0\0\x12\x01', '\x15\x03\x03\x04']) {
      expect(told(other)).toBe('Expected HTTP/');
    }
  });
});
