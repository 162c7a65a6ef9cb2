import { describe, expect, it } from 'vitest';
import { RequestHeaders } from '../../../src/server/request-headers.js';

const headers = new RequestHeaders({ deadline: 'x-envoy-expected-rq-timeout-ms', priority: 'x-request-priority' });
const read = (...raw: string[]) => {
  headers.read(raw);
  const { deadlineMs, priority, format } = headers;
  return { deadlineMs, priority, format };
};

describe('the headers a pod reads', () => {
  it('are read whatever their case, and forgotten with the next request', () => {
    expect(
      read(
        'Host',
        'a',
        'X-Envoy-Expected-Rq-Timeout-Ms',
        '250',
        'X-Request-Priority',
        'critical',
        'Endpoint-Load-Metrics-Format',
        'TEXT',
      ),
    ).toEqual({ deadlineMs: 250, priority: 'critical', format: 'TEXT' });
    expect(read('Host', 'a')).toEqual({ deadlineMs: undefined, priority: undefined, format: undefined });
  });

  it('a second deadline can only shorten the first', () => {
    const name = 'x-envoy-expected-rq-timeout-ms';
    expect(read(name, '250', name, '100').deadlineMs).toBe(100);
    expect(read(name, '100', name, '250').deadlineMs).toBe(100);
  });

  it.each(['', '-1', '1e3', '1.5', ' 5', 'soon', '9'.repeat(16)])('%j is no deadline', (value) => {
    expect(read('x-envoy-expected-rq-timeout-ms', value).deadlineMs).toBeUndefined();
  });

  it('a deadline of years is one of a day', () => {
    expect(read('x-envoy-expected-rq-timeout-ms', '999999999999').deadlineMs).toBe(86_400_000);
  });

  it('reads none whose name is not set', () => {
    const none = new RequestHeaders({ deadline: undefined, priority: undefined });
    none.read(['', '5', 'x-request-priority', 'critical']);
    expect([none.deadlineMs, none.priority]).toEqual([undefined, undefined]);
  });
});
