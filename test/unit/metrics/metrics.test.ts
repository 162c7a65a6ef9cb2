import { PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { BalancerOptions } from '../../../src/balancer/balancer-options.js';
import { liveBalancers } from '../../../src/balancer/snapshot.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { ResolveError } from '../../../src/errors.js';
import { catalogue, type MetricName } from '../../../src/metrics/catalogue.js';
import { Collector } from '../../../src/metrics/collector.js';
import { Histogram } from '../../../src/metrics/histogram.js';
import { prometheusText } from '../../../src/metrics/index.js';
import { prometheusFormat, prometheusName } from '../../../src/metrics/prometheus.js';
import type { SeriesAttributes } from '../../../src/metrics/series.js';
import { instrumentMetrics } from '../../../src/opentelemetry/index.js';
import type { ResolverListener } from '../../../src/resolver/resolver.js';
import { outlierEjection } from '../../../src/stage/outlier-ejection.js';
import { FakeClock, settle } from '../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';
import type { FakeConnection } from '../../../src/testing/fake-transport.js';
import { BalancerFixture } from '../../support/fixtures/balancer-fixture.js';

let fixtures: BalancerFixture[];
let clock: FakeClock;
let collector: Collector;
/** The target of a test's balancers: other tests in this process may have left some of theirs. */
let target: string;
let tests = 0;

beforeEach(() => {
  fixtures = [];
  clock = new FakeClock();
  collector = new Collector(clock);
  target = `orders-${++tests}`;
});
afterEach(async () => {
  collector.stop();
  for (const { balancer, transport } of fixtures) {
    const closing = balancer.close({ signal: AbortSignal.abort() });
    for (const connection of transport.connections) connection.close?.();
    await settle();
    void closing;
  }
});

function open(options: Partial<BalancerOptions<FakeConnection>> = {}): BalancerFixture {
  const resolver = new FakeResolver();
  const named = { name: target, watch: (listener: ResolverListener) => resolver.watch(listener) };
  const fixture = Object.assign(new BalancerFixture({ resolver: named, ...options }), { resolver });
  fixtures.push(fixture);
  return fixture;
}

/** The value of a series of this test's target, whatever its other attributes unless they are given. */
function value(name: MetricName, more: SeriesAttributes = {}, perEndpoint = 0): number | undefined {
  const found = collector
    .collect({ perEndpoint })
    .of(name)
    .filter(({ attributes }) =>
      Object.entries({ 'evenkeel.target': target, ...more }).every(([k, v]) => attributes[k] === v),
    );
  expect(found.length, name).toBeLessThanOrEqual(1);
  const [series] = found;
  return series?.value instanceof Histogram ? series.value.count : series?.value;
}

describe('metrics', () => {
  it('count what balancers did before they were first read, and measure durations from then on', async () => {
    collector.stop();
    const { balancer, clock: time, publish } = bound(open());
    await publish('10.0.0.1', '10.0.0.2');
    for (let call = 0; call < 3; call++) await balancer.run(() => undefined);
    collector = new Collector(clock);
    expect(value('evenkeel.calls')).toBe(3);
    expect(value('evenkeel.attempt.duration', { 'evenkeel.outcome': 'success' })).toBe(0);
    const lease = balancer.pick();
    await time.advanceAsync(30);
    expect(value('evenkeel.calls.in_flight')).toBe(1);
    lease?.end(outcomes.success);
    expect(value('evenkeel.attempt.duration', { 'evenkeel.outcome': 'success' })).toBe(1);
    expect(value('evenkeel.endpoints', { 'evenkeel.state': 'ready' })).toBe(2);
    expect(value('evenkeel.connections.opened')).toBe(2);
  });

  it('keep what a closed balancer had counted, and forget the balancer', async () => {
    const fixture = open();
    const { balancer, publish } = bound(fixture);
    await publish('10.0.0.1');
    await balancer.run(() => undefined);
    await balancer.close();
    expect([...liveBalancers]).not.toContain(balancer);
    expect(value('evenkeel.calls')).toBe(1);
    expect(value('evenkeel.endpoints', { 'evenkeel.state': 'ready' })).toBeUndefined();
    const again = bound(open());
    await again.publish('10.0.0.1');
    await again.balancer.run(() => undefined);
    expect(value('evenkeel.calls')).toBe(2);
    expect(value('evenkeel.attempt.duration', { 'evenkeel.outcome': 'success' })).toBe(2);
  });

  it('add up calls over the balancers for one target, and count its endpoints once', async () => {
    for (let client = 0; client < 2; client++) {
      const { balancer, publish } = bound(open());
      await publish('10.0.0.1', '10.0.0.2', '10.0.0.3');
      await balancer.run(() => undefined);
    }
    expect(value('evenkeel.calls')).toBe(2);
    expect(value('evenkeel.endpoints', { 'evenkeel.state': 'ready' })).toBe(3);
  });

  it('show how attempts ended, how long calls waited, and what was refused', async () => {
    const { balancer, publish, clock: time } = bound(open({ waitTimeoutMs: 100 }));
    const waiting = balancer.acquire();
    await time.advanceAsync(20);
    await publish('10.0.0.1');
    (await waiting).end(outcomes.reset);
    expect(value('evenkeel.attempt.duration', { 'evenkeel.outcome': 'reset' })).toBe(1);
    expect(value('evenkeel.wait.duration', { 'evenkeel.served': 'true' })).toBe(1);
    await publish();
    await expect(balancer.acquire()).rejects.toThrow();
    expect(value('evenkeel.calls.refused')).toBe(1);
    expect(value('evenkeel.wait.duration', { 'evenkeel.served': 'false' })).toBe(0);
  });

  it('show which endpoints are out and why, and that discovery fails', async () => {
    const {
      balancer,
      publish,
      clock: time,
      resolver,
    } = bound(open({ stages: [outlierEjection({ consecutiveFailures: 2 })], retry: { maxAttempts: 1 } }));
    await publish('10.0.0.1', '10.0.0.2', '10.0.0.3');
    for (let call = 0; call < 12; call++) {
      const lease = balancer.pick();
      lease?.end(lease.endpoint.address === '10.0.0.2' ? outcomes.reset : outcomes.success);
      await settle();
    }
    expect(value('evenkeel.ejections', { 'evenkeel.cause': 'consecutive' })).toBe(1);
    expect(value('evenkeel.endpoints.suspect')).toBe(1);
    const [, ejected] = balancer.snapshot().endpoints;
    expect(ejected).toMatchObject({ suspect: true, ejectedBecause: '2 failures in a row (last: reset)' });
    resolver.fail(new ResolveError('gone'));
    await time.advanceAsync(5_000);
    expect(value('evenkeel.resolve.failures')).toBe(1);
    expect(value('evenkeel.endpoints.stale')).toBeGreaterThanOrEqual(5);
  });

  it('show how even the picks of the last minute were, over the endpoints that were there all the time', async () => {
    const { balancer, publish } = bound(open());
    await publish('10.0.0.1', { address: '10.0.0.2', port: 80, zone: 'b' });
    for (let call = 0; call < 40; call++) await balancer.run(() => undefined);
    expect(value('evenkeel.imbalance')).toBe(1);
    expect(value('evenkeel.zone.share', { 'evenkeel.zone': 'b' })).toBe(0.5);
    await clock.advanceAsync(60_000);
    collector.collect({ perEndpoint: 0 });
    await clock.advanceAsync(60_000);
    collector.collect({ perEndpoint: 0 });
    // From here on only one of them is picked.
    const avoid = new Set(avoided(balancer, '10.0.0.2'));
    for (let call = 0; call < 98; call++) balancer.pick({ avoid })?.end(outcomes.success);
    expect(value('evenkeel.imbalance')).toBe(1.98);
    expect(value('evenkeel.share.least')).toBeCloseTo(0.02);
    await publish('10.0.0.1', { address: '10.0.0.2', port: 80, zone: 'b' }, '10.0.0.3');
    expect(value('evenkeel.imbalance')).toBe(1.98);
  });

  it('do not report a rolling update as uneven, also in the first minutes of a process', async () => {
    const { balancer, publish } = bound(open());
    await publish('10.0.0.1', '10.0.0.2');
    collector.collect({ perEndpoint: 0 });
    for (let call = 0; call < 200; call++) await balancer.run(() => undefined);
    await publish('10.0.0.1', '10.0.0.2', '10.0.0.3');
    for (let call = 0; call < 30; call++) await balancer.run(() => undefined);
    expect(value('evenkeel.imbalance')).toBe(1);
    expect(value('evenkeel.share.least')).toBe(1);
  });

  it('have series per endpoint only on request', async () => {
    const { balancer, publish } = bound(open());
    await publish({ address: '10.0.0.1', port: 80, name: 'orders-1' }, '10.0.0.2', '10.0.0.3');
    await balancer.run(() => undefined);
    const ours = (count: number) =>
      collector
        .collect({ perEndpoint: count })
        .of('evenkeel.endpoint.picks')
        .filter(({ attributes }) => attributes['evenkeel.target'] === target);
    expect(ours(0)).toEqual([]);
    expect(ours(2).map(({ attributes }) => attributes['evenkeel.pod'])).toEqual(['orders-1', '']);
  });

  it('share one series beyond a number of targets', () => {
    collector.stop();
    const snapshot = open().balancer.snapshot();
    const many = ['a', 'b', 'c', 'd'].map((name) => ({
      name,
      meter: undefined,
      snapshot: () => snapshot,
    }));
    for (const balancer of many) liveBalancers.add(balancer);
    collector = new Collector(clock, 2);
    const targets = collector.collect({ perEndpoint: 0 }).of('evenkeel.calls');
    expect(new Set(targets.map(({ attributes }) => attributes['evenkeel.target'])).size).toBe(3);
    expect(targets.map(({ attributes }) => attributes['evenkeel.target'])).toContain('other');
    for (const balancer of many) liveBalancers.remove(balancer);
  });
});

describe('the text for Prometheus', () => {
  it('has buckets that add up, and escapes special characters in the name of a target', async () => {
    const watch = () => ({ refresh: () => {}, close: () => {} });
    open({ resolver: { name: 'a "quoted"\\\nname', watch } });
    const { balancer, publish, clock: time } = bound(open());
    await publish('10.0.0.1');
    for (const ms of [0.5, 30, 20_000]) {
      const lease = balancer.pick();
      await time.advanceAsync(ms);
      lease?.end(outcomes.success);
    }
    const text = prometheusFormat(collector.collect({ perEndpoint: 0 }));
    const labels = `evenkeel_target="${target}",evenkeel_outcome="success"`;
    expect(text).toContain(`evenkeel_attempt_duration_seconds_bucket{${labels},le="0.001"} 1\n`);
    expect(text).toContain(`evenkeel_attempt_duration_seconds_bucket{${labels},le="0.05"} 2\n`);
    expect(text).toContain(`evenkeel_attempt_duration_seconds_bucket{${labels},le="+Inf"} 3\n`);
    expect(text).toContain(`evenkeel_attempt_duration_seconds_sum{${labels}} 20.0305\n`);
    expect(text).toContain('evenkeel_calls_total{evenkeel_target="a \\"quoted\\"\\\\\\nname"} 0\n');
  });

  it('refuses options it does not know', () => {
    expect(() => prometheusText({ perEndpoints: 1 } as never)).toThrow('perEndpoint');
    expect(() => prometheusText({ perEndpoint: -1 })).toThrow('perEndpoint');
  });
});

describe('instrument', () => {
  it('reports to an OpenTelemetry meter, under the names of the Prometheus text', async () => {
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
    const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
    const provider = new MeterProvider({ readers: [reader] });
    // Another measures what balancers of this test do.
    collector.stop();
    const { balancer, publish, clock: time } = bound(open());
    await publish('10.0.0.1');
    const { stop } = instrumentMetrics({ meter: provider.getMeter('evenkeel'), perEndpoint: 10 });
    // Two modules of an application may each do so: the durations below are counted once.
    instrumentMetrics({ meter: provider.getMeter('evenkeel') });
    const lease = balancer.pick();
    await time.advanceAsync(30);
    lease?.end(outcomes.success);
    const { resourceMetrics } = await reader.collect();
    const text = new PrometheusSerializer('', false).serialize(resourceMetrics);
    expect(text).toMatch(new RegExp(`evenkeel_calls_total\\{[^}]*evenkeel_target="${target}"`));
    const seen = [...text.matchAll(/^# TYPE (evenkeel\S+)/gm)].map(([, name]) => name as string);
    // This exporter leaves the unit out, unlike that of the OpenTelemetry Collector.
    const known = (Object.keys(catalogue) as MetricName[]).map((name) =>
      prometheusName(name).replace(/_(seconds|ratio)/, ''),
    );
    expect(seen.length).toBeGreaterThan(20);
    expect(seen.filter((name) => !known.includes(name))).toEqual([]);
    const durations = (shown: string): string[] =>
      shown
        .split('\n')
        .filter((line) => line.startsWith('evenkeel_attempt_duration_count') && line.includes(`"${target}"`));
    expect(durations(text)).toEqual([expect.stringMatching(/evenkeel_outcome="success".* 1( \d+)?$/)]);
    stop();
    const after = balancer.pick();
    after?.end(outcomes.success);
    const last = new PrometheusSerializer('', false).serialize((await reader.collect()).resourceMetrics);
    expect(durations(last)).toEqual([expect.stringMatching(/evenkeel_outcome="success".* 1( \d+)?$/)]);
    await provider.shutdown();
  });

  it('refuses a value that is not a meter', () => {
    expect(() => instrumentMetrics({ meter: {} as never })).toThrow('a Meter of @opentelemetry/api');
  });
});

/** Its members, to be used on their own. */
function bound(fixture: BalancerFixture): {
  readonly balancer: BalancerFixture['balancer'];
  readonly clock: FakeClock;
  readonly resolver: BalancerFixture['resolver'];
  readonly publish: BalancerFixture['publish'];
} {
  const { balancer, clock: time, resolver } = fixture;
  return { balancer, clock: time, resolver, publish: (...endpoints) => fixture.publish(...endpoints) };
}

/** The subchannels of an address, found by picking. */
function avoided(balancer: BalancerFixture['balancer'], address: string) {
  const leases = [balancer.pick(), balancer.pick()];
  const found = leases.filter((lease) => lease?.endpoint.address === address).map((lease) => lease!.subchannel);
  for (const lease of leases) lease?.end(outcomes.success);
  return found;
}
