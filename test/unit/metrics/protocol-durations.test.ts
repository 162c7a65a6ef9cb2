import { describe, expect, it } from 'vitest';
import { callLease } from '../../../src/call/lease.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { catalogue, type MetricName } from '../../../src/metrics/catalogue.js';
import { Collector } from '../../../src/metrics/collector.js';
import { Histogram } from '../../../src/metrics/histogram.js';
import { prometheusText } from '../../../src/metrics/index.js';
import { ProtocolDurations } from '../../../src/metrics/protocol-durations.js';
import { SeriesSet } from '../../../src/metrics/series.js';
import type { Protocol } from '../../../src/observe/live-balancers.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';
import { FakeTransport } from '../../../src/testing/fake-transport.js';
import { BalancerFixture } from '../../support/fixtures/balancer-fixture.js';

const http: Protocol = { conventions: 'http', attributes: { 'server.address': 'orders.shop', 'server.port': 8080 } };
const grpc: Protocol = { conventions: 'grpc', attributes: { 'grpc.target': 'orders.shop:50051' } };
const db: Protocol = { conventions: 'db', attributes: { 'db.system.name': 'mysql' } };

const meterOf = (protocol: Protocol): ProtocolDurations => new ProtocolDurations(protocol, new Set());

/** Attributes beside those of the protocol, with counts. */
function seriesOf(meter: ProtocolDurations, protocol: Protocol, name: MetricName): [object, number][] {
  const set = new SeriesSet();
  meter.addTo(set, ['http', 'grpc', 'rpc', 'db']);
  return set.of(name).map(({ attributes, value }) => {
    const more = Object.entries(attributes).filter(([key]) => !(key in protocol.attributes));
    return [Object.fromEntries(more), value instanceof Histogram ? value.count : value];
  });
}

describe('durations under conventional names', () => {
  it('distinguish HTTP requests by method and status, and name errors', () => {
    const meter = meterOf(http);
    meter.attemptEnded({ operation: 'GET', status: 200 }, outcomes.success, 5);
    meter.attemptEnded({ operation: 'GET', status: 200 }, outcomes.success, 50);
    meter.attemptEnded({ operation: 'GET', status: 404 }, outcomes.success, 5);
    meter.attemptEnded({ operation: 'POST', status: 503 }, outcomes.overload, 5);
    meter.attemptEnded({ operation: 'GET', status: undefined }, outcomes.reset, 5);
    meter.attemptEnded({ operation: 'PURGE', status: 200 }, outcomes.success, 5);
    meter.attemptEnded({ operation: 'LINK', status: 200 }, outcomes.success, 5);
    meter.attemptEnded({ operation: 'GET', status: undefined }, outcomes.notConnected, 5);
    expect(seriesOf(meter, http, 'http.client.request.duration')).toEqual([
      [{ 'http.request.method': 'GET', 'http.response.status_code': 200 }, 2],
      [{ 'http.request.method': 'GET', 'http.response.status_code': 404, 'error.type': '404' }, 1],
      [{ 'http.request.method': 'POST', 'http.response.status_code': 503, 'error.type': '503' }, 1],
      [{ 'http.request.method': 'GET', 'error.type': 'reset' }, 1],
      [{ 'http.request.method': '_OTHER', 'http.response.status_code': 200 }, 2],
    ]);
  });

  it('are bounded, whatever methods clients and statuses servers invent', () => {
    const sizes = [http, grpc, db].map((protocol) => {
      const meter = meterOf(protocol);
      const maps: number[] = [];
      const { set } = Map.prototype;
      Map.prototype.set = function (...entry) {
        maps.push(1);
        return set.apply(this, entry);
      };
      try {
        for (let made = 0; made < 5_000; made++) {
          const status = protocol === db ? `made up ${made}` : protocol === grpc ? 1_000 + made : 200;
          meter.attemptStarted(protocol === http ? `M${made}` : 'one');
          meter.attemptEnded({ operation: protocol === http ? `M${made}` : 'one', status }, outcomes.success, 5);
          meter.callEnded('one', Number(status), 5);
        }
      } finally {
        Map.prototype.set = set;
      }
      const series = Object.keys(catalogue).flatMap((name) => seriesOf(meter, protocol, name as MetricName));
      // Each start counts up one entry.
      return { series: series.length, entries: maps.length - 5_000 };
    });
    expect(sizes).toEqual([
      { series: 2, entries: 2 },
      { series: 4, entries: 4 },
      { series: 2, entries: 2 },
    ]);
  });

  it('include gRPC calls and attempts by method and status', () => {
    const meter = meterOf(grpc);
    meter.attemptStarted('/shop.v1.Orders/Get');
    meter.attemptEnded({ operation: '/shop.v1.Orders/Get', status: 14 }, outcomes.reset, 5);
    meter.attemptStarted('/shop.v1.Orders/Get');
    meter.attemptEnded({ operation: '/shop.v1.Orders/Get', status: 0 }, outcomes.success, 5);
    meter.callEnded('/shop.v1.Orders/Get', 0, 12);
    const method = { 'grpc.method': 'shop.v1.Orders/Get' };
    expect(seriesOf(meter, grpc, 'grpc.client.attempt.started')).toEqual([[method, 2]]);
    expect(seriesOf(meter, grpc, 'grpc.client.attempt.duration')).toEqual([
      [{ ...method, 'grpc.status': 'UNAVAILABLE' }, 1],
      [{ ...method, 'grpc.status': 'OK' }, 1],
    ]);
    expect(seriesOf(meter, grpc, 'grpc.client.call.duration')).toEqual([[{ ...method, 'grpc.status': 'OK' }, 1]]);
    meter.callEnded('/shop.v1.Orders/Get', 5, 12);
    const call = {
      'rpc.system.name': 'grpc',
      'server.address': 'orders.shop',
      'server.port': 50_051,
      'rpc.method': 'shop.v1.Orders/Get',
    };
    expect(seriesOf(meter, grpc, 'rpc.client.call.duration')).toEqual([
      [{ ...call, 'rpc.response.status_code': 'OK' }, 1],
      [{ ...call, 'rpc.response.status_code': 'NOT_FOUND', 'error.type': 'NOT_FOUND' }, 1],
    ]);
  });

  it('have the codes of the database', () => {
    const meter = meterOf(db);
    meter.attemptEnded({ operation: 'statement', status: undefined }, outcomes.success, 5);
    meter.attemptEnded({ operation: 'statement', status: 1062 }, outcomes.success, 5);
    meter.attemptEnded({ operation: 'statement', status: undefined }, outcomes.timeout, 5);
    expect(seriesOf(meter, db, 'db.client.operation.duration')).toEqual([
      [{}, 1],
      [{ 'error.type': '1062', 'db.response.status_code': '1062' }, 1],
      [{ 'error.type': 'timeout' }, 1],
    ]);
  });

  it('have a limited number of series, and still count everything', () => {
    const meter = meterOf(grpc);
    for (let method = 0; method < 2_000; method++) {
      meter.attemptStarted(`/a/${method}`);
      meter.attemptEnded({ operation: `/a/${method}`, status: 0 }, outcomes.success, 1);
    }
    for (const name of ['grpc.client.attempt.started', 'grpc.client.attempt.duration'] as const) {
      const series = seriesOf(meter, grpc, name);
      expect(series.length).toBeLessThanOrEqual(301);
      expect(series.reduce((sum, [, count]) => sum + count, 0)).toBe(2_000);
    }
    const codes = meterOf(db);
    for (let code = 1; code < 2_000; code++)
      codes.attemptEnded({ operation: 'statement', status: code }, outcomes.success, 1);
    expect(seriesOf(codes, db, 'db.client.operation.duration').length).toBeLessThanOrEqual(301);
  });
});

describe('conventions', () => {
  it('are measured and reported only to readers that ask for them', async () => {
    const collector = new Collector(new FakeClock());
    const transport = Object.assign(new FakeTransport(), { protocol: http });
    const fixture = new BalancerFixture({ transport });
    const { balancer } = fixture;
    await fixture.publish('10.0.0.1');
    const call = (isMeasured: boolean): void => {
      const picked = balancer.pick();
      if (picked === undefined) throw new Error('nothing to pick');
      const lease = callLease(picked);
      expect(lease.isMeasured).toBe(isMeasured);
      lease.end(outcomes.success, undefined, { operation: 'GET', status: 200 });
    };
    call(false);
    const everything = { perEndpoint: 0, conventions: ['http'] } as const;
    expect(collector.collect(everything).of('http.client.request.duration')).toEqual([]);
    collector.want(['http']);
    call(true);
    const [series] = collector.collect(everything).of('http.client.request.duration');
    expect(series?.value).toMatchObject({ count: 1 });
    expect(collector.collect(everything).of('http.client.open_connections').length).toBe(2);
    const plain = collector.collect({ perEndpoint: 0, conventions: [] });
    expect(plain.names.filter((name) => catalogue[name].convention !== undefined)).toEqual([]);
    await balancer.close({ signal: AbortSignal.abort() });
    collector.stop();
  });

  it('must be known', () => {
    expect(() => prometheusText({ conventions: ['sql'] as never })).toThrow('http, grpc, rpc, db');
    expect(() => prometheusText({ conventions: 'http' as never })).toThrow('http, grpc, rpc, db');
  });
});
