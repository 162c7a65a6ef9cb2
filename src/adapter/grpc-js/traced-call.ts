import { type Channel, type Metadata, status as statusCode } from '@grpc/grpc-js';
import { outcomes } from '../../index.js';
import { CallTrace, type TracedSource } from '../kit/index.js';
import type { ResolvedGrpcOptions } from './options.js';
import { authorityOf } from './target.js';

type ChannelCall = ReturnType<Channel['createCall']>;

/** A channel, for traces of its calls. */
export interface TracedChannel extends TracedSource {
  /** The Service's name as the user wrote it. */
  readonly service: string;
}

/** The channel of a Service, with these options. */
export function tracedChannel(service: string, { balancing, clock }: ResolvedGrpcOptions): TracedChannel {
  const { resolver = service } = balancing;
  return { name: typeof resolver === 'string' ? resolver : resolver.name, clock, service };
}

/**
 * The traces of calls whose configuration grpc-js is looking up, by their metadata options: of everything a call starts with, only these
 * reach our part of grpc-js unchanged.
 */
const begun = new WeakMap<object, CallTrace>();

/** Traces a call from its start, in its caller's async context, to its end. */
export function traceFromStart(call: ChannelCall, channel: TracedChannel, path: string): void {
  const { start } = call;
  call.start = (metadata, listener) => {
    const trace = new CallTrace(channel, factsOf(channel, path));
    const own = metadata.clone();
    const options = { ...own.getOptions() };
    own.setOptions(options);
    begun.set(options, trace);
    const heard: typeof listener = {
      onReceiveMetadata: (received) => listener.onReceiveMetadata(received),
      onReceiveMessage: (message) => listener.onReceiveMessage(message),
      onReceiveStatus: (status) => {
        endTrace(trace, status);
        listener.onReceiveStatus(status);
      },
    };
    trace.start(() => start.call(call, own, heard));
  };
}

/** The trace of a call whose configuration is looked up. Calls of a channel created by other code are traced from here on. */
export function traceOfCall(metadata: Metadata | undefined, channel: TracedChannel, path: string): CallTrace {
  const options = metadata?.getOptions();
  const trace = options === undefined ? undefined : begun.get(options);
  if (trace !== undefined) return trace;
  const late = new CallTrace(channel, factsOf(channel, path));
  late.start(() => {});
  return late;
}

/** The call ended with this status. */
export function endTrace(
  trace: CallTrace,
  { code, details }: { readonly code: statusCode; readonly details?: string },
): void {
  const name = statusCode[code];
  if (code === statusCode.OK) trace.end(outcomes.success, undefined, name);
  // Not an Error: its stack would be grpc-js's.
  else
    trace.end(
      code === statusCode.CANCELLED ? outcomes.cancelled : undefined,
      { code: name, details: details ?? '' },
      name,
    );
}

function factsOf({ service }: TracedChannel, method: string): { protocol: string; method: string; service: string } {
  return { protocol: 'grpc', method, service: authorityOf(service) };
}
