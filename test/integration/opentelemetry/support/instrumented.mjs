/**
 * Loaded before a program of the tests (`--import`): OpenTelemetry as an application sets it up, with the official instrumentations.
 * Every span that ends is sent to the parent process.
 */
import { register } from 'node:module';
import { context, propagation, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { registerInstrumentations } from '@opentelemetry/instrumentation';
import { GrpcInstrumentation } from '@opentelemetry/instrumentation-grpc';
import { HttpInstrumentation } from '@opentelemetry/instrumentation-http';
import { MySQL2Instrumentation } from '@opentelemetry/instrumentation-mysql2';
import { PgInstrumentation } from '@opentelemetry/instrumentation-pg';
import { UndiciInstrumentation } from '@opentelemetry/instrumentation-undici';
import { BasicTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';

register('@opentelemetry/instrumentation/hook.mjs', import.meta.url);

const exporter = {
  export(spans, done) {
    for (const span of spans) {
      const { traceId, spanId } = span.spanContext();
      process.send?.({
        span: {
          name: span.name,
          traceId,
          spanId,
          parent: span.parentSpanContext?.spanId,
          kind: span.kind,
          attributes: span.attributes,
          status: span.status,
          scope: span.instrumentationScope.name.replace('@opentelemetry/instrumentation-', ''),
        },
      });
    }
    done({ code: 0 });
  },
  async shutdown() {},
};

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
propagation.setGlobalPropagator(new W3CTraceContextPropagator());
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
trace.setGlobalTracerProvider(provider);
const wanted = (process.env.INSTRUMENTATIONS ?? 'http,undici,grpc,mysql2,pg').split(',');
registerInstrumentations({
  instrumentations: [
    wanted.includes('http') && new HttpInstrumentation(),
    wanted.includes('undici') && new UndiciInstrumentation(),
    wanted.includes('grpc') && new GrpcInstrumentation(),
    wanted.includes('mysql2') && new MySQL2Instrumentation(),
    wanted.includes('pg') && new PgInstrumentation(),
  ].filter(Boolean),
});
