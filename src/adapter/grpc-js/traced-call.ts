import { type Metadata, status as statusCode } from '@grpc/grpc-js';
import { outcomes } from '../../index.js';
import { CallTrace, type TracedSource } from '../kit/index.js';
import { authorityOf } from './address.js';
import { beginWith, type ChannelCall, identifiable, identityOf } from './internals.js';
import type { ResolvedGrpcOptions } from './options.js';

/** What traces of calls say about their channel. */
export interface TracedChannel extends TracedSource {
  /** The Service that is called, by host and port. */
  readonly authority: string;
}

/** Returns what traces say about the channel of a Service with these options. */
export function tracedChannel(service: string, { balancing, clock }: ResolvedGrpcOptions): TracedChannel {
  const { resolver = service } = balancing;
  return { name: typeof resolver === 'string' ? resolver : resolver.name, clock, authority: authorityOf(service) };
}

/** The traces of calls whose configuration grpc-js is looking up, by the identity of the calls' metadata. */
const tracesByIdentity = new WeakMap<object, CallTrace>();

/** Traces a call from its start, in its caller's async context, until it ends. */
export function traceFromStart(call: ChannelCall, channel: TracedChannel, path: string): void {
  beginWith(call, (start, metadata, listener) => {
    const trace = newTrace(channel, path);
    const identified = identifiable(metadata);
    tracesByIdentity.set(identityOf(identified), trace);
    const tracedListener: typeof listener = {
      onReceiveMetadata: (received) => listener.onReceiveMetadata(received),
      onReceiveMessage: (message) => listener.onReceiveMessage(message),
      onReceiveStatus: (status) => {
        endTrace(trace, status);
        listener.onReceiveStatus(status);
      },
    };
    trace.start(() => start(identified, tracedListener));
  });
}

/**
 * The trace of a call whose configuration grpc-js is looking up. Calls of a channel that other code created are traced only from here on.
 */
export function traceOfCall(metadata: Metadata | undefined, channel: TracedChannel, path: string): CallTrace {
  const trace = metadata && tracesByIdentity.get(identityOf(metadata));
  if (trace !== undefined) return trace;
  const late = newTrace(channel, path);
  late.start(() => {});
  return late;
}

/** Ends the trace of a call that ended with this status. */
export function endTrace(
  trace: CallTrace,
  { code, details = '' }: { readonly code: statusCode; readonly details?: string },
): void {
  const name = statusCode[code];
  if (code === statusCode.OK) trace.end(outcomes.success, undefined, name);
  // A plain object instead of an Error, whose stack would be grpc-js's.
  else trace.end(code === statusCode.CANCELLED ? outcomes.cancelled : undefined, { code: name, details }, name);
}

function newTrace(channel: TracedChannel, method: string): CallTrace {
  return new CallTrace(channel, { protocol: 'grpc', method, service: channel.authority });
}
