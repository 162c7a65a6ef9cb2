import { type Outcome, outcomes } from '../../index.js';
import { isDialError } from '../http/dial.js';
import { outcomeOfSystemError } from '../kit/index.js';

/** How the connection of a request that did not complete looked at its end. */
export interface BrokenExchange {
  /** What the request emitted, if anything. */
  readonly error: Error | undefined;
  /** The pod had ended the connection. */
  readonly endedByPod: boolean;
  /** We had cut it. */
  readonly cut: boolean;
}

/**
 * How a request ended that got no complete answer. Node gives an abort by the caller and a connection the pod closed the
 * same error, "socket hang up": the pod is held responsible only where it shows, by an error of the system, an end of
 * its side, or bytes that are no HTTP. All else was the caller's doing, or ours.
 */
export function outcomeOfBroken({ error, endedByPod, cut }: BrokenExchange): Outcome {
  if (cut) return outcomes.cancelled;
  if (error !== undefined && isDialError(error)) return outcomes.notConnected;
  const { code, syscall } = (error ?? {}) as { code?: unknown; syscall?: unknown };
  if (typeof code === 'string') {
    if (code.startsWith('HPE_')) return outcomes.protocol;
    // A caller may end a request with an error that has a code of the system, too.
    const ofSystem = syscall !== undefined || code.startsWith('ERR_SSL_') || code === 'EPROTO';
    const known = ofSystem ? outcomeOfSystemError(code) : undefined;
    if (known !== undefined) return known;
  }
  return endedByPod ? outcomes.reset : outcomes.cancelled;
}
