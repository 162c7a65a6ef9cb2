import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { MeterProvider as MeterProvider1 } from 'sdk-metrics1';
import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { prometheusText } from '../../../src/metrics/index.js';
import { type Observer, observerEventNames } from '../../../src/observe/observer.js';
import { instrumentMetrics, metricProducer } from '../../../src/opentelemetry/index.js';
import type { ResolverListener } from '../../../src/resolver/resolver.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';
import { BalancerFixture } from '../../support/fixtures/balancer-fixture.js';

let tests = 0;

function named(name: string, observer: Observer = {}) {
  const resolver = new FakeResolver();
  const fixture = new BalancerFixture({
    resolver: { name, watch: (listener: ResolverListener) => resolver.watch(listener) },
    observer,
  });
  const close = async (): Promise<void> => {
    const closing = fixture.balancer.close({ signal: AbortSignal.abort() });
    for (const connection of fixture.transport.connections) void connection.close?.();
    await settle();
    await closing;
  };
  return { ...fixture, balancer: fixture.balancer, resolver, close };
}

/** What Prometheus would complain about: lines that are no sample, and series that are there twice. */
function faultsOf(text: string): string[] {
  const label = '[a-z_]+="(?:[^"\\\\\\n]|\\\\["\\\\n])*"';
  const sample = new RegExp(`^[a-z_:]+\\{${label}(?:,${label})*\\} -?[0-9.e+-]+$`);
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const series = lines.map((line) => line.slice(0, line.lastIndexOf(' ')));
  return [
    ...lines.filter((line) => !sample.test(line)),
    ...series.filter((one, index) => series.indexOf(one) !== index),
  ];
}

describe('metrics', () => {
  it('are complete whatever names there are', async () => {
    const hostile = `a"b\\c\nd{e="f"} 1 # ${++tests}`;
    const { resolver, balancer, close } = named(hostile);
    resolver.update(
      { address: '10.0.0.1', port: 80, name: 'x"\n\\', zone: '"} 1\n' },
      { address: '10.0.0.2', port: 80, name: 'x"\n\\', zone: '' },
      { address: 'fe80::1', port: 80 },
    );
    await settle();
    balancer.pick()?.end(outcomes.success);
    expect(faultsOf(prometheusText({ perEndpoint: 10 }))).toEqual([]);
    await close();
  });

  it('may be read in any event, a rebuild and a close included', async () => {
    let reads = 0;
    const observer: Observer = Object.fromEntries(
      observerEventNames.map((event) => [
        event,
        () => {
          reads++;
          expect(faultsOf(prometheusText({ perEndpoint: 10 }))).toEqual([]);
        },
      ]),
    );
    const { resolver, balancer, clock, close } = named(`reads-${++tests}`, observer);
    resolver.update('10.0.0.1', '10.0.0.2');
    await settle();
    balancer.pick()?.end(outcomes.reset);
    resolver.update('10.0.0.2', '10.0.0.3');
    await settle();
    await clock.advanceAsync(60_000);
    await close();
    expect(reads).toBeGreaterThan(5);
  });

  it('of a closed balancer keep their values for every reader, and no call fails after a provider is shut down', async () => {
    const target = `shut-${++tests}`;
    const { resolver, balancer, close } = named(target);
    resolver.update('10.0.0.1');
    await settle();
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
    const reader = new PeriodicExportingMetricReader({ exporter, metricProducers: [metricProducer()] });
    const provider = new MeterProvider({ readers: [reader] });
    const old = new MeterProvider1();
    const stops = [
      instrumentMetrics({ meter: provider.getMeter('a') }),
      instrumentMetrics({ meter: old.getMeter('b') }),
    ];
    balancer.pick()?.end(outcomes.success);
    await provider.shutdown();
    await old.shutdown();
    balancer.pick()?.end(outcomes.success);
    await close();
    for (const { stop } of stops) stop();
    expect(prometheusText()).toContain(`evenkeel_picks_total{evenkeel_target="${target}"} 2\n`);
  });

  it('do not fail a call when a meter throws', async () => {
    const { resolver, balancer, close } = named(`throws-${++tests}`);
    resolver.update('10.0.0.1');
    await settle();
    const throws = (): never => {
      throw new Error('the meter is out of order');
    };
    const none = (): object => ({});
    const { stop } = instrumentMetrics({
      meter: {
        createHistogram: () => ({ record: throws }),
        createObservableCounter: none,
        createObservableGauge: none,
        createObservableUpDownCounter: none,
        addBatchObservableCallback: none,
        removeBatchObservableCallback: none,
      },
    });
    const lease = balancer.pick();
    expect(() => lease?.end(outcomes.success)).not.toThrow();
    expect(balancer.snapshot().endpoints[0]?.inFlight).toBe(0);
    stop();
    await close();
  });

  it('of 5,000 endpoints are read at once', async () => {
    const target = `large-${++tests}`;
    const { resolver, close } = named(target);
    resolver.update(...Array.from({ length: 5_000 }, (_, index) => `10.${index >> 8}.${index & 255}.1`));
    await settle();
    const text = prometheusText({ perEndpoint: 10_000 });
    expect(
      text.split('\n').filter((line) => line.startsWith(`evenkeel_endpoint_picks_total{evenkeel_target="${target}"`))
        .length,
    ).toBe(5_000);
    await close();
  });
});
