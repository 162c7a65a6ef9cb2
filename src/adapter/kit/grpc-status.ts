import type { Endpoint } from '../../endpoint/endpoint.js';
import { type Outcome, outcomes } from '../../endpoint/outcome.js';
import { addressMark, notBegunHeader } from '../../propagation/not-begun.js';

/** What the status codes of gRPC, by number, say about the endpoint, as opposed to the call. */
const outcomeByCode: readonly Outcome[] = [
  /* OK */ outcomes.success,
  /* CANCELLED */ outcomes.cancelled,
  // UNKNOWN, like INTERNAL below, is what servers answer when a handler throws.
  /* UNKNOWN */ outcomes.status,
  // The endpoint did its work and refused the request, here and where else it is a success.
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

/**
 * The outcome of a call that its server answered with this gRPC status. A code outside the list counts as UNKNOWN (gRFC A54 leaves it to
 * the reader).
 *
 * @param entry Reads an entry of the trailers. @param endpoint The endpoint of the call: only its own word counts when the trailers say
 * that it has not begun the call.
 */
export function outcomeOfGrpcStatus(
  code: number,
  entry: (name: string) => unknown,
  endpoint: Endpoint | undefined,
): Outcome {
  const outcome = outcomeByCode[code] ?? outcomes.status;
  if (outcome.kind !== 'failure') return outcome;
  const pushbackMs = pushbackOf(entry('grpc-retry-pushback-ms'));
  const mark = entry(notBegunHeader);
  if (mark !== undefined && endpoint !== undefined && mark === addressMark(endpoint.address, endpoint.port)) {
    const retryAfter = pushbackMs !== undefined && pushbackMs >= 0 ? { retryAfterMs: pushbackMs } : {};
    return { kind: 'not-started', cause: 'overload', ...retryAfter };
  }
  if (pushbackMs === undefined) return outcome;
  return pushbackMs < 0 ? outcomes.overload : { ...outcomes.overload, retryAfterMs: pushbackMs };
}

/** How long the server asks not to be called, in ms, from its gRPC trailer; negative: it asks not to be retried at all (gRFC A6). */
function pushbackOf(value: unknown): number | undefined {
  if (value === undefined) return undefined;
  const text = String(value);
  return /^\d{1,9}$/.test(text) ? Number(text) : -1;
}
