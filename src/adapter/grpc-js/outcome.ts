import { type Metadata, status } from '@grpc/grpc-js';
import { type Endpoint, type LoadReport, type Outcome, outcomes } from '../../index.js';
import { addressMark, notBegunHeader } from '../kit/index.js';
import { isOwnStatus, isRefusedStream } from './internals.js';

/** What the status codes of gRPC say about the endpoint, as opposed to the call. */
const outcomeByCode: Readonly<Record<status, Outcome>> = {
  [status.OK]: outcomes.success,
  // The endpoint did its work and refused the request.
  [status.INVALID_ARGUMENT]: outcomes.success,
  [status.NOT_FOUND]: outcomes.success,
  [status.ALREADY_EXISTS]: outcomes.success,
  [status.PERMISSION_DENIED]: outcomes.success,
  [status.FAILED_PRECONDITION]: outcomes.success,
  [status.ABORTED]: outcomes.success,
  [status.OUT_OF_RANGE]: outcomes.success,
  [status.UNIMPLEMENTED]: outcomes.success,
  [status.UNAUTHENTICATED]: outcomes.success,
  // What servers answer when a handler throws, or loses data.
  [status.UNKNOWN]: outcomes.status,
  [status.INTERNAL]: outcomes.status,
  [status.DATA_LOSS]: outcomes.status,
  [status.UNAVAILABLE]: outcomes.status,
  [status.DEADLINE_EXCEEDED]: outcomes.timeout,
  [status.RESOURCE_EXHAUSTED]: outcomes.overload,
  [status.CANCELLED]: outcomes.cancelled,
};

/** The end of a call, as reported to a picker. */
export interface EndedCall {
  readonly code: status;
  readonly details: string;
  /** The trailers; empty if grpc-js created the status itself. */
  readonly metadata: Metadata;
  /** Whether a timeout says nothing about the endpoint: the response had begun, or the method may be quiet. */
  readonly quiet: boolean;
  readonly endpoint?: Endpoint | undefined;
}

/** The one table from gRPC statuses to outcomes. */
export function outcomeOf({ code, details, metadata, quiet, endpoint }: EndedCall, report?: LoadReport): Outcome {
  // Codes outside the list count as UNKNOWN (gRFC A54 leaves them to the reader).
  const outcome = outcomeByCode[code] ?? outcomes.status;
  if (outcome.kind === 'success') return report === undefined ? outcome : { ...outcome, report };
  if (outcome.kind === 'cancelled') return outcome;
  const pushbackMs = pushbackOf(metadata);
  if (isNotBegun(metadata, endpoint)) {
    return {
      kind: 'not-started',
      cause: 'overload',
      ...(pushbackMs !== undefined && pushbackMs >= 0 && { retryAfterMs: pushbackMs }),
    };
  }
  if (pushbackMs !== undefined) {
    return pushbackMs < 0 ? outcomes.overload : { ...outcomes.overload, retryAfterMs: pushbackMs };
  }
  if (code === status.DEADLINE_EXCEEDED) return quiet ? outcomes.cancelled : outcome;
  if (isOwnStatus(metadata)) {
    if (code === status.UNAVAILABLE) return isRefusedStream(details) ? outcomes.notStarted : outcomes.reset;
    // A message larger than this side accepts: the endpoint did its work.
    if (code === status.RESOURCE_EXHAUSTED) return outcomes.success;
    if (code === status.INTERNAL) return outcomes.protocol;
  }
  return outcome;
}

/** Whether this very server says it has not begun the call, and not one behind it. */
function isNotBegun(metadata: Metadata, endpoint: Endpoint | undefined): boolean {
  if (endpoint === undefined) return false;
  const [mark] = metadata.get(notBegunHeader);
  return mark !== undefined && mark === addressMark(endpoint.address, endpoint.port);
}

/** How long the server asks not to be called, in ms; negative: it asks not to be retried at all (gRFC A6). */
function pushbackOf(metadata: Metadata): number | undefined {
  const [value] = metadata.get('grpc-retry-pushback-ms');
  if (value === undefined) return undefined;
  const text = String(value);
  return /^\d{1,9}$/.test(text) ? Number(text) : -1;
}
