import { type Tracer, trace } from '@opentelemetry/api';
import { checkBoolean, checkKeys, optionError } from '../runtime/check.js';
import { CallSpans } from './call-spans.js';

export type { MeterLike } from '../metrics/opentelemetry.js';
export type { MetricDataLike, MetricProducerLike, Temporality } from '../metrics/producer.js';
export type { MetricsOptions } from '../metrics/selection.js';
export {
  type InstrumentMetricsOptions,
  instrumentMetrics,
  type MetricProducerOptions,
  metricProducer,
} from './metrics.js';

/** Options of `instrumentTraces`. */
export interface TracesOptions {
  /** The tracer that creates the spans. @defaultValue `trace.getTracer('evenkeel')` of the global tracer provider */
  readonly tracer?: Tracer | undefined;
  /**
   * Whether each attempt sends its span to the server as the parent of the server's span, in the headers of the global propagator: over
   * gRPC, and over HTTP unless an instrumentation of undici does. @defaultValue true
   */
  readonly propagate?: boolean | undefined;
  /**
   * The kind of the attempts' spans. `client` is for processes in which no instrumentation of undici, grpc-js, mysql2 … creates client
   * spans; otherwise a dashboard would count calls twice. @defaultValue 'internal'
   */
  readonly attemptKind?: 'internal' | 'client' | undefined;
}

/** Stops tracing, and ends open spans. */
export interface Traces {
  /** Stops tracing: starts no further spans, and ends open ones. */
  readonly stop: () => void;
  /** Number of open spans. */
  readonly open: number;
}

/**
 * Creates a span for every call of this process, and one for each of its attempts. The attempt runs in its span's context, so spans of
 * other instrumentations become its children. Spans and attributes: docs/reference/traces.md. Throws EVENKEEL_OPTION.
 *
 * @example instrumentTraces();
 */
export function instrumentTraces(options: TracesOptions = {}): Traces {
  checkKeys('options', options, ['tracer', 'propagate', 'attemptKind']);
  const { tracer = trace.getTracer('evenkeel'), attemptKind = 'internal' } = options;
  if (typeof tracer?.startSpan !== 'function') throw optionError('tracer', 'a Tracer of @opentelemetry/api', tracer);
  if (attemptKind !== 'internal' && attemptKind !== 'client')
    throw optionError('attemptKind', "'internal' or 'client'", attemptKind);
  const propagates = checkBoolean('propagate', options.propagate, true);
  return new CallSpans(tracer, attemptKind, propagates);
}
