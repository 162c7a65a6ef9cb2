// Imported first, because it explains what is wrong with an @opentelemetry/api that is too old.
import './check-version.js';

import { type Tracer, trace } from '@opentelemetry/api';
import { checkBoolean, checkKeys, optionError } from '../runtime/check.js';
import { ownProperties } from '../runtime/own-properties.js';
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

/**
 * Options of `instrumentTraces`: which tracer, whether servers are told of spans, and the kind of the attempts' spans. An invalid option
 * throws EVENKEEL_OPTION.
 */
export interface TracesOptions {
  /** The tracer that creates the spans. @defaultValue `trace.getTracer('evenkeel')` of the global tracer provider */
  readonly tracer?: Tracer | undefined;
  /**
   * Whether each attempt tells the server, in the headers of the global propagator, that the attempt's span is the parent of the server's.
   * This applies to gRPC, and to HTTP unless an instrumentation of undici does it. @defaultValue true
   */
  readonly propagate?: boolean | undefined;
  /**
   * The kind of the attempts' spans. Use `client` in processes where no instrumentation of undici, grpc-js, mysql2 or others creates client
   * spans; otherwise a dashboard would count calls twice. @defaultValue 'internal'
   */
  readonly attemptKind?: 'internal' | 'client' | undefined;
}

/** What `instrumentTraces` returns, to end the tracing. */
export interface Traces {
  /** Ends the tracing: no further spans are started, and open ones are ended. */
  readonly stop: () => void;
  /** How many spans are open now. */
  readonly open: number;
}

/**
 * Creates a span for every call of this process, and one for each of its attempts. An attempt runs in the context of its span, so spans of
 * other instrumentations become its children. docs/reference/traces.md lists spans and attributes. Throws EVENKEEL_OPTION for invalid
 * options.
 *
 * @example instrumentTraces();
 */
export function instrumentTraces(options: TracesOptions = {}): Traces {
  checkKeys('options', options, ['tracer', 'propagate', 'attemptKind']);
  const own = ownProperties(options);
  const { tracer = trace.getTracer('evenkeel'), attemptKind = 'internal' } = own;
  if (typeof tracer?.startSpan !== 'function') throw optionError('tracer', 'a Tracer of @opentelemetry/api', tracer);
  if (attemptKind !== 'internal' && attemptKind !== 'client')
    throw optionError('attemptKind', "'internal' or 'client'", attemptKind);
  const propagates = checkBoolean('propagate', own.propagate, true);
  return new CallSpans(tracer, attemptKind, propagates);
}
