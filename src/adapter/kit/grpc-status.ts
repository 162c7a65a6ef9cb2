import { type Outcome, outcomes } from '../../endpoint/outcome.js';
import { notBegunHeader } from '../../propagation/not-begun.js';

/** What each gRPC status code, by its number, says about the endpoint (not about the request). */
const outcomeByCode: readonly Outcome[] = [
  /* OK */ outcomes.success,
  /* CANCELLED */ outcomes.cancelled,
  // Some servers answer UNKNOWN when a handler throws, others answer INTERNAL.
  /* UNKNOWN */ outcomes.status,
  // The endpoint worked and rejected the request, so for the endpoint INVALID_ARGUMENT is a success, and so is every other code marked as
  // one.
  /* INVALID_ARGUMENT */ outcomes.success,
  /* DEADLINE_EXCEEDED */ outcomes.timeout,
  /* NOT_FOUND */ outcomes.success,
  /* ALREADY_EXISTS */ outcomes.success,
  /* PERMISSION_DENIED */ outcomes.success,
  /* RESOURCE_EXHAUSTED */ outcomes.overload,
  /* FAILED_PRECONDITION */ outcomes.success,
  /* ABORTED */ outcomes.success,
  /* OUT_OF_RANGE */ outcomes.success,
  /* UNIMPLEMENTED */ outcomes.success,
  /* INTERNAL */ outcomes.status,
  /* UNAVAILABLE */ outcomes.status,
  /* DATA_LOSS */ outcomes.status,
  /* UNAUTHENTICATED */ outcomes.success,
];

/** Decides whether a server is believed that says it has not begun a call. */
export interface RefusalCheck {
  /** Whether `mark`, the value of `evenkeel-not-begun` in a response, is that of the server which was asked. */
  hasNotBegun(mark: unknown): boolean;
}

/**
 * Returns the outcome of a call that its server answered with the gRPC status `code`. An unknown code counts as UNKNOWN, since gRFC A54
 * leaves that choice to the client.
 *
 * @param entry Reads one entry of the trailers.
 * @param refusals Decides whether the server is believed that says it has not begun the call.
 */
export function outcomeOfGrpcStatus(
  code: number,
  entry: (name: string) => unknown,
  refusals: RefusalCheck | undefined,
): Outcome {
  const outcome = outcomeByCode[code] ?? outcomes.status;
  if (outcome.kind !== 'failure') return outcome;
  const pushbackMs = pushbackOf(entry('grpc-retry-pushback-ms'));
  if (refusals?.hasNotBegun(entry(notBegunHeader)) === true) {
    const retryAfter = pushbackMs !== undefined && pushbackMs >= 0 ? { retryAfterMs: pushbackMs } : {};
    return { kind: 'not-started', cause: 'overload', ...retryAfter };
  }
  if (pushbackMs === undefined) return outcome;
  return pushbackMs < 0 ? outcomes.overload : { ...outcomes.overload, retryAfterMs: pushbackMs };
}

/**
 * How long the server asks clients not to call it, in ms, read from the trailer `grpc-retry-pushback-ms`. Negative: the server asks for no
 * retry at all (gRFC A6).
 */
function pushbackOf(value: unknown): number | undefined {
  if (value === undefined) return undefined;
  const text = String(value);
  return /^\d{1,9}$/.test(text) ? Number(text) : -1;
}
