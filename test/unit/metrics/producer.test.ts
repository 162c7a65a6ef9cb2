import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http';
import { PrometheusExporter, PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import * as sdk2 from '@opentelemetry/sdk-metrics';
import * as sdk1 from 'sdk-metrics1';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import type { MetricName } from '../../../src/metrics/catalogue.js';
import { Collector } from '../../../src/metrics/collector.js';
import { prometheusText } from '../../../src/metrics/index.js';
import { Producer } from '../../../src/metrics/producer.js';
import { metricProducer } from '../../../src/opentelemetry/index.js';
import type { ResolverListener } from '../../../src/resolver/resolver.js';
import { FakeClock, settle } from '../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';
import { BalancerFixture } from '../../support/fixtures/balancer-fixture.js';

let collector: Collector;
let fixture: BalancerFixture;
let target: string;
let tests = 0;

beforeEach(async () => {
  collector = new Collector(new FakeClock());
  target = `producer-${++tests}`;
  const resolver = new FakeResolver();
  const named = { name: target, watch: (listener: ResolverListener) => resolver.watch(listener) };
  fixture = Object.assign(new BalancerFixture({ resolver: named }), { resolver });
  await fixture.publish('10.0.0.1', '10.0.0.2');
});
afterEach(async () => {
  collector.stop();
  const closing = fixture.balancer.close({ signal: AbortSignal.abort() });
  for (const connection of fixture.transport.connections) void connection.close?.();
  await settle();
  await closing;
});

async function call(ms: number): Promise<void> {
  const lease = fixture.balancer.pick();
  await fixture.clock.advanceAsync(ms);
  lease?.end(outcomes.success);
}

interface PointOf<Value> {
  readonly attributes: Record<string, unknown>;
  readonly value: Value;
}
interface Data {
  readonly descriptor: { readonly name: string };
  readonly dataPoints: readonly PointOf<unknown>[];
}

/** The values of the series of this test's target. */
function valuesOf(metrics: readonly Data[], name: MetricName): unknown[] {
  const found = metrics.filter(({ descriptor }) => descriptor.name === name);
  expect(found.length, name).toBe(1);
  return (found[0]?.dataPoints ?? [])
    .filter(({ attributes }) => attributes['evenkeel.target'] === target)
    .map(({ value }) => value);
}

describe.each([
  ['1.x', sdk1],
  ['2.x', sdk2],
] as const)('a metric producer, with version %s of the SDK', (_version, sdk) => {
  it("reports beside the application's own metrics, to a reader with an exporter", async () => {
    const exporter = new sdk.InMemoryMetricExporter(sdk.AggregationTemporality.CUMULATIVE as never);
    const options = {
      exporter,
      exportIntervalMillis: 3_600_000,
      metricProducers: [new Producer({ perEndpoint: 1 }, 'cumulative', collector)],
    };
    const reader = new sdk.PeriodicExportingMetricReader(options as never);
    const provider = new sdk.MeterProvider({ readers: [reader as never] });
    provider.getMeter('app').createCounter('orders').add(3);
    await call(30);
    await call(700);
    await reader.forceFlush();
    const [exported] = exporter.getMetrics();
    const scopes = exported?.scopeMetrics.map(({ scope }) => scope.name);
    expect(scopes).toEqual(['app', 'evenkeel']);
    const metrics = exported?.scopeMetrics[1]?.metrics as unknown as readonly Data[];
    expect(valuesOf(metrics, 'evenkeel.picks')).toEqual([2]);
    expect(valuesOf(metrics, 'evenkeel.endpoint.picks').length).toBe(1);
    const [durations] = valuesOf(metrics, 'evenkeel.attempt.duration') as {
      sum: number;
      count: number;
      buckets: { boundaries: number[]; counts: number[] };
    }[];
    expect(durations?.count).toBe(2);
    expect(durations?.sum).toBeCloseTo(0.73);
    const { boundaries = [], counts = [] } = durations?.buckets ?? {};
    expect(counts[boundaries.indexOf(0.05)]).toBe(1);
    expect(counts[boundaries.indexOf(0.75)]).toBe(1);
    await provider.shutdown();
    await expect(reader.collect()).rejects.toThrow();
    // Measuring goes on for others.
    await call(1);
    expect(prometheusText()).toContain(target);
  });
});

describe('a metric producer', () => {
  it('shows the same series as instrument and prometheusText', async () => {
    await call(30);
    const { resourceMetrics } = await new Producer({ perEndpoint: 10 }, 'cumulative', collector).collect();
    const text = new PrometheusSerializer('', false).serialize({ ...resourceMetrics, resource: sdkResource() });
    expect(text).toMatch(
      new RegExp(
        `evenkeel_attempt_duration_bucket\\{evenkeel_target="${target}",evenkeel_outcome="success",[^}]*le="0.05"\\} 1`,
      ),
    );
    expect(text).toMatch(new RegExp(`evenkeel_calls_total\\{evenkeel_target="${target}"`));
  });

  it('reports deltas if asked to', async () => {
    const producer = new Producer({ perEndpoint: 1 }, 'delta', collector);
    const metricsOf = async () => (await producer.collect()).resourceMetrics.scopeMetrics[0]?.metrics ?? [];
    await call(30);
    const first = await metricsOf();
    expect(valuesOf(first, 'evenkeel.picks')).toEqual([1]);
    await call(30);
    await call(30);
    const second = await metricsOf();
    expect(valuesOf(second, 'evenkeel.picks')).toEqual([2]);
    expect(valuesOf(second, 'evenkeel.attempt.duration')).toMatchObject([{ count: 2 }]);
    const [before, after] = [first, second].map((metrics) => metrics[0]?.dataPoints[0]);
    expect(after?.startTime).toEqual(before?.endTime);
    expect(second[0]?.aggregationTemporality).toBe(sdk2.AggregationTemporality.DELTA);
    const third = await metricsOf();
    expect(valuesOf(third, 'evenkeel.picks')).toEqual([0]);
    // Gauges are as they are.
    expect(valuesOf(third, 'evenkeel.endpoints')).toContain(2);
  });

  it('reaches a collector over OTLP', async () => {
    const bodies: string[] = [];
    const server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      bodies.push(Buffer.concat(chunks).toString());
      response.setHeader('content-type', 'application/json');
      response.end('{}');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/metrics`;
    const reader = new sdk2.PeriodicExportingMetricReader({
      exporter: new OTLPMetricExporter({ url }),
      exportIntervalMillis: 3_600_000,
      metricProducers: [new Producer({ perEndpoint: 0 }, 'cumulative', collector)],
    });
    const provider = new sdk2.MeterProvider({ readers: [reader] });
    await call(30);
    await provider.shutdown();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    const { resourceMetrics } = JSON.parse(bodies[0] ?? '{}') as {
      resourceMetrics: { scopeMetrics: { scope: object; metrics: { name: string; histogram?: unknown }[] }[] }[];
    };
    const [scope] = resourceMetrics[0]?.scopeMetrics ?? [];
    expect(scope?.scope).toEqual({ name: 'evenkeel' });
    const durations = scope?.metrics.find(({ name }) => name === 'evenkeel.attempt.duration');
    const ours = {
      attributes: expect.arrayContaining([{ key: 'evenkeel.target', value: { stringValue: target } }]),
      count: 1,
      sum: 0.03,
    };
    expect(durations?.histogram).toMatchObject({ dataPoints: expect.arrayContaining([expect.objectContaining(ours)]) });
  });

  it("is served by the SDK's Prometheus exporter", async () => {
    const exporter = new PrometheusExporter({ preventServerStart: true, metricProducers: [metricProducer()] });
    const provider = new sdk2.MeterProvider({ readers: [exporter] });
    const { resourceMetrics } = await exporter.collect();
    expect(resourceMetrics.scopeMetrics.map(({ scope }) => scope.name)).toEqual(['evenkeel']);
    await provider.shutdown();
  });

  it('fits the types of both versions', () => {
    const one: sdk1.MetricProducer = metricProducer();
    const two: sdk2.MetricProducer = metricProducer();
    expect([one, two].every(({ collect }) => typeof collect === 'function')).toBe(true);
  });

  it('refuses options it does not know', () => {
    expect(() => metricProducer({ temporality: 'low' as never })).toThrow("'cumulative' or 'delta'");
    expect(() => metricProducer({ meter: 1 } as never)).toThrow('meter');
  });
});

function sdkResource(): never {
  return { attributes: {} } as never;
}
