// @ts-check
/**
 * OpenTelemetry as an application sets it up, before anything else is loaded. The exporter keeps spans in memory; in production it is
 * an OTLP exporter.
 */
import { context, propagation, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { registerInstrumentations } from '@opentelemetry/instrumentation';
import { UndiciInstrumentation } from '@opentelemetry/instrumentation-undici';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { instrumentTraces } from 'evenkeel/opentelemetry';

export const exporter = new InMemorySpanExporter();

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
propagation.setGlobalPropagator(new W3CTraceContextPropagator());
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
registerInstrumentations({ instrumentations: [new UndiciInstrumentation()] });

// The whole change.
instrumentTraces();
