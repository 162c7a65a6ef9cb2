import { context, propagation, SpanKind, SpanStatusCode, type Tracer, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import {
  AlwaysOffSampler,
  BasicTracerProvider,
  InMemorySpanExporter,
  ParentBasedSampler,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { CallTrace } from '../../../src/call/call-trace.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { instrumentTraces, type Traces, type TracesOptions } from '../../../src/opentelemetry/index.js';
import { BalancerFixture, failure } from '../../support/fixtures/balancer-fixture.js';

const exporter = new InMemorySpanExporter();
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
const tracer = provider.getTracer('evenkeel');
beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
});
afterAll(() => {
  context.disable();
  propagation.disable();
});

const running: Traces[] = [];
afterEach(() => {
  for (const one of running.splice(0)) one.stop();
  exporter.reset();
});
function instrument(options: TracesOptions = { tracer }): Traces {
  const traces = instrumentTraces(options);
  running.push(traces);
  return traces;
}
const names = (): string[] => exporter.getFinishedSpans().map(({ name }) => name);

async function onePod(): Promise<BalancerFixture> {
  const fixture = new BalancerFixture();
  await fixture.publish({
    address: '10.0.0.1',
    port: 80,
    name: 'orders-a',
    uid: 'uid-a',
    zone: 'z1',
    nodeName: 'node-1',
  });
  return fixture;
}

describe('instrumentTraces', () => {
  it('creates a span for a call and one for its attempt, with what discovery knows about the pod', async () => {
    instrument();
    const { balancer } = await onePod();
    await balancer.run(() => expect(trace.getActiveSpan()).toBeDefined());
    const [attempt, call] = exporter.getFinishedSpans();
    expect([attempt?.name, call?.name]).toEqual(['evenkeel attempt', 'evenkeel custom']);
    expect(attempt?.parentSpanContext?.spanId).toBe(call?.spanContext().spanId);
    expect(attempt?.attributes).toMatchObject({
      'k8s.pod.name': 'orders-a',
      'k8s.pod.uid': 'uid-a',
      'k8s.node.name': 'node-1',
      'evenkeel.zone': 'z1',
      'network.peer.address': '10.0.0.1',
      'network.peer.port': 80,
    });
    expect(trace.getActiveSpan()).toBeUndefined();
  });

  it.each([
    ['http://orders.shop:8080', 'orders.shop', 8080],
    ['orders.shop:50051', 'orders.shop', 50051],
    ['orders.shop', 'orders.shop', undefined],
    ['https://[fd00::1]:8443', 'fd00::1', 8443],
    ['static 10.0.0.1:80,10.0.0.2:80', undefined, undefined],
  ])('records the server’s name for %s', (service, address, port) => {
    instrument();
    const call = new CallTrace(
      { name: 'somewhere', clock: new BalancerFixture().clock },
      { protocol: 'http', service },
    );
    call.start(() => {});
    call.end(outcomes.success, undefined);
    expect(exporter.getFinishedSpans()[0]?.attributes).toMatchObject({
      'evenkeel.target': 'somewhere',
      ...(address !== undefined && { 'server.address': address }),
      ...(port !== undefined && { 'server.port': port }),
    });
    if (address === undefined) expect(exporter.getFinishedSpans()[0]?.attributes).not.toHaveProperty('server.address');
  });

  it('records a thrown value that is not an Error without its content', async () => {
    instrument();
    const { balancer } = await onePod();
    await failure(balancer.run(() => Promise.reject('a password')));
    const [, call] = exporter.getFinishedSpans();
    expect(call).toMatchObject({ status: { code: SpanStatusCode.ERROR }, attributes: { 'error.type': '_OTHER' } });
    expect(JSON.stringify([call?.attributes, call?.status])).not.toContain('password');
  });

  it('makes attempts client spans if configured', async () => {
    instrument({ tracer, attemptKind: 'client' });
    const { balancer } = await onePod();
    await balancer.run(() => 1);
    expect(exporter.getFinishedSpans().map(({ kind }) => kind)).toEqual([SpanKind.CLIENT, SpanKind.INTERNAL]);
  });

  it('creates each span once however often it is called, until the last instance is stopped', async () => {
    const first = instrument();
    instrument();
    const { balancer } = await onePod();
    await balancer.run(() => 1);
    expect(names()).toEqual(['evenkeel attempt', 'evenkeel custom']);
    first.stop();
    await balancer.run(() => 1);
    expect(names()).toHaveLength(4);
  });

  it('ends open spans when it is stopped; a call that is running then changes nothing', async () => {
    const traces = instrument();
    const { balancer } = await onePod();
    let finish = (): void => {};
    const call = balancer.run(() => new Promise<void>((resolve) => (finish = resolve)));
    expect(traces.open).toBe(2);
    traces.stop();
    expect([traces.open, names()]).toEqual([0, ['evenkeel attempt', 'evenkeel custom']]);
    finish();
    await call;
    expect(names()).toHaveLength(2);
  });

  it('creates only attempt spans for a call that began before it and is traced by another library', async () => {
    const { balancer } = await onePod();
    const other = instrument({ tracer: provider.getTracer('another') });
    let fail = (_: Error): void => {};
    let uses = 0;
    const call = balancer.run(() => (++uses === 1 ? new Promise<void>((_, reject) => (fail = reject)) : undefined), {
      idempotent: true,
    });
    other.stop();
    const traces = instrument();
    fail(Object.assign(new Error('reset'), { code: 'ECONNRESET' }));
    await call;
    expect(names()).toEqual(['evenkeel attempt', 'evenkeel custom', 'evenkeel attempt']);
    expect(traces.open).toBe(0);
  });

  it('gives a call in an unsampled trace one span that does not record, and its attempts none', async () => {
    let started = 0;
    const off = new BasicTracerProvider({
      sampler: new ParentBasedSampler({ root: new AlwaysOffSampler() }),
    }).getTracer('off');
    const counting: Tracer = {
      startSpan: (...args) => {
        started++;
        return off.startSpan(...args);
      },
      startActiveSpan: off.startActiveSpan.bind(off) as Tracer['startActiveSpan'],
    };
    const traces = instrument({ tracer: counting });
    const { balancer } = await onePod();
    const flags = await balancer.run(() => trace.getActiveSpan()?.spanContext().traceFlags);
    expect([started, flags, traces.open]).toEqual([1, 0, 0]);
    // What is sent says that the trace is not sampled.
    const sent: string[] = [];
    const call = new CallTrace({ name: 'x', clock: new BalancerFixture().clock }, { protocol: 'grpc' });
    const setHeader = (name: string, value: string): number => sent.push(`${name} ${value}`);
    const endpoint = { address: '10.0.0.1', port: 80 };
    const attempt = call.start(() => call.attempt({ endpoint } as never, { attempt: 1, reason: 'first', setHeader }));
    attempt.start(() => attempt.end(outcomes.success, undefined));
    call.end(undefined, undefined);
    expect(sent).toEqual([expect.stringMatching(/^traceparent 00-\w{32}-\w{16}-00$/)]);
    expect(traces.open).toBe(0);
  });

  it('does next to nothing without an SDK', async () => {
    instrument({});
    const { balancer } = await onePod();
    expect(await balancer.run(() => 7)).toBe(7);
  });

  it('refuses a value that is not a tracer, and unknown options', () => {
    const wrong: readonly [unknown, RegExp][] = [
      [{ tracer: {} }, /tracer must be a Tracer of @opentelemetry\/api/],
      [{ attemptKind: 'server' }, /attemptKind must be 'internal' or 'client'/],
      [{ propagate: 1 }, /propagate must be/],
      [{ tracers: 1 }, /tracers/],
    ];
    for (const [options, message] of wrong) {
      expect(() => instrumentTraces(options as TracesOptions)).toThrow(message);
      expect(() => instrumentTraces(options as TracesOptions)).toThrow(
        expect.objectContaining({ code: 'EVENKEEL_OPTION' }),
      );
    }
  });
});
