import { type Outcome, outcomes } from '../../index.js';
import { isDialError } from '../http/dial.js';
import { type FailedAttempt, outcomeAtDeadline, outcomeOfSystemError } from '../kit/index.js';

/** The state of a connection at the end of a request whose response is not complete. */
export interface BrokenExchange {
  /** The error that the request emitted, if any. */
  readonly error: Error | undefined;
  /** Whether the pod ended the connection. */
  readonly endedByPod: boolean;
  /** Whether evenkeel cut the connection. */
  readonly cut: boolean;
}

/**
 * The outcome of a request without a complete response. Node reports an abort by the caller and a connection closed by the pod with the
 * same error, "socket hang up". So the pod is only blamed with evidence: a system error, an end of its side, or bytes that are not HTTP.
 * Anything else was caused by the caller, or by evenkeel.
 */
export function outcomeOfBroken({ error, endedByPod, cut }: BrokenExchange): Outcome {
  if (cut) return outcomes.cancelled;
  if (error !== undefined && isDialError(error)) return outcomes.notConnected;
  const { code, syscall } = (error ?? {}) as { code?: unknown; syscall?: unknown };
  if (typeof code === 'string') {
    if (code.startsWith('HPE_')) return outcomes.protocol;
    // A caller may end a request with an error that has a system error code too, but no system call.
    const ofSystem = syscall !== undefined || code.startsWith('ERR_SSL_') || code === 'EPROTO';
    const systemOutcome = ofSystem ? outcomeOfSystemError(code) : undefined;
    if (systemOutcome !== undefined) return systemOutcome;
  }
  return endedByPod ? outcomes.reset : outcomes.cancelled;
}

/** Describes an attempt that got no socket, so that nothing was sent. */
export function refusedAttempt(error: Error): FailedAttempt {
  const isUnsent = !isDialError(error);
  return {
    outcome: isUnsent ? outcomes.notStarted : outcomes.notConnected,
    // In either case the pod can only be used again over another connection.
    repeatAs: outcomes.notConnected,
    error,
    // Hundreds of requests may wait for the sockets of a pod that ends.
    resend: isUnsent ? 'free' : 'first-free',
    idempotent: true,
    answered: false,
  };
}

/** The outcome of a request whose caller gave up, or whose deadline of `limitMs` passed. @param tookMs How long the pod had the request. */
export function outcomeOfAbort(tookMs: number, limitMs: number | undefined, answered: boolean): Outcome {
  return limitMs === undefined ? outcomes.cancelled : outcomeAtDeadline(tookMs, limitMs, answered);
}
