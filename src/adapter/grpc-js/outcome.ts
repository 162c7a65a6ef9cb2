import { type Metadata, status } from '@grpc/grpc-js';
import { type Endpoint, type LoadReport, type Outcome, outcomes } from '../../index.js';
import { addressMark, outcomeOfGrpcStatus, type RefusalCheck } from '../kit/index.js';
import { isOwnStatus, isRefusedStream } from './internals.js';

/** The end of a call, as grpc-js reports it to a picker. */
export interface EndedCall {
  readonly code: status;
  readonly details: string;
  /** The trailers of the call; empty if grpc-js created the status itself. */
  readonly metadata: Metadata;
  /** Whether a timeout of this call says nothing about the endpoint: the response had begun, or the method may be quiet. */
  readonly quiet: boolean;
  readonly endpoint?: Endpoint | undefined;
}

/**
 * grpc-js does not say on which connection a call went, so the server's address in the mark has to do. No call is sent again because of it:
 * only the service config decides about that.
 */
const refusalsOf = ({ address, port }: Endpoint): RefusalCheck => ({
  hasNotBegun: (mark) => typeof mark === 'string' && mark.startsWith(`${addressMark(address, port)}-`),
});

/** The outcome of a call for its endpoint. */
export function outcomeOf({ code, details, metadata, quiet, endpoint }: EndedCall, report?: LoadReport): Outcome {
  const outcome = outcomeOfGrpcStatus(code, (name) => metadata.get(name)[0], endpoint && refusalsOf(endpoint));
  if (outcome.kind === 'success') return report === undefined ? outcome : { ...outcome, report };
  if (outcome === outcomes.timeout) return quiet ? outcomes.cancelled : outcome;
  if (isOwnStatus(metadata)) {
    if (code === status.UNAVAILABLE) return isRefusedStream(details) ? outcomes.notStarted : outcomes.reset;
    // The message is larger than this client accepts, but the endpoint did its work.
    if (code === status.RESOURCE_EXHAUSTED) return outcomes.success;
    if (code === status.INTERNAL) return outcomes.protocol;
  }
  return outcome;
}
