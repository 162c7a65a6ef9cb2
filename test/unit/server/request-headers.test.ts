import { describe, expect, it } from 'vitest';
import { RequestHeaders } from '../../../src/server/request-headers.js';

const headers = new RequestHeaders({ deadline: 'x-envoy-expected-rq-timeout-ms', priority: 'x-request-priority' });
const read = (...raw: string[]) => {
  headers.read(raw);
  const { deadlineMs, priority, format } = headers;
  return { deadlineMs, priority, format };
};

describe('the headers that a pod reads', () => {
  it('are read in any case, and separately for each request', () => {
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

  it('can only shorten a deadline by a second one', () => {
    const name = 'x-envoy-expected-rq-timeout-ms';
    expect(read(name, '250', name, '100').deadlineMs).toBe(100);
    expect(read(name, '100', name, '250').deadlineMs).toBe(100);
  });

  it.each(['', '-1', '1e3', '1.5', ' 5', 'soon', '9'.repeat(16)])('have no deadline with %j', (value) => {
    expect(read('x-envoy-expected-rq-timeout-ms', value).deadlineMs).toBeUndefined();
  });

  it('have a deadline of at most a day', () => {
    expect(read('x-envoy-expected-rq-timeout-ms', '999999999999').deadlineMs).toBe(86_400_000);
  });

  it('are ignored if no name is configured', () => {
    const none = new RequestHeaders({ deadline: undefined, priority: undefined });
    none.read(['', '5', 'x-request-priority', 'critical']);
    expect([none.deadlineMs, none.priority]).toEqual([undefined, undefined]);
  });
});
