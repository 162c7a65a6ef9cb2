import { type Tracer, trace } from '@opentelemetry/api';
import { checkBoolean, checkKeys, optionError } from '../runtime/check.js';
import { CallSpans } from './call-spans.js';

/** Options of `instrumentTraces`. */
export interface TracesOptions {
  /** Makes the spans. @defaultValue `trace.getTracer('evenkeel')` of the global tracer provider */
  readonly tracer?: Tracer | undefined;
  /**
   * Whether each attempt tells its server that the attempt is the parent, in the headers of the global propagator: over gRPC, and over
   * HTTP where undici has no instrumentation that does. @defaultValue true
   */
  readonly propagate?: boolean | undefined;
  /**
   * The kind of the attempts' spans. `client` is for processes in which no instrumentation of undici, grpc-js, mysql2 … makes client
   * spans: a dashboard would count such calls twice. @defaultValue 'internal'
   */
  readonly attemptKind?: 'internal' | 'client' | undefined;
}

/** Ends tracing, and the spans that are open. */
export interface Traces {
  readonly stop: () => void;
  /** Spans that have not ended. */
  readonly open: number;
}

/**
 * Makes a span of every call of this process, and one of each of its attempts, in the context of which the attempt runs: spans of
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
