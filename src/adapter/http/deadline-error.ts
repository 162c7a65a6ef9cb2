import { EvenkeelError, endpointAddress, isEvenkeelError, type Lease } from '../../index.js';
import type { TriedEndpoints } from '../kit/index.js';

/** A call, or one of its attempts, at its deadline. */
interface Running {
  readonly lease: Lease<unknown> | undefined;
  readonly stage: 'waiting' | 'connecting' | 'sent' | 'answered';
}

export interface MissedDeadline {
  readonly origin: string;
  readonly method: string;
  readonly limitMs: number;
  readonly running: readonly Running[];
  readonly tried: TriedEndpoints<unknown> | undefined;
}

/** The error at a deadline: the endpoint it waited for, how far the request got, and where it was tried before. */
export function deadlineError({ origin, method, limitMs, running, tried }: MissedDeadline): EvenkeelError {
  const now = running.map(describe).join(' and ');
  const present = new Set(running.map(({ lease }) => lease?.subchannel));
  const before = [...(tried?.avoid ?? [])].filter((subchannel) => !present.has(subchannel));
  const earlier =
    before.length === 0 ? '' : `; before that ${before.map(({ endpoint }) => endpointAddress(endpoint)).join(', ')}`;
  const message = `${origin}: ${method} did not finish within ${limitMs} ms: ${now}${earlier}`;
  const endpoint = running.find(({ lease }) => lease !== undefined)?.lease?.endpoint;
  return new EvenkeelError(
    'EVENKEEL_DEADLINE',
    message,
    endpoint === undefined ? {} : { endpoint: endpointAddress(endpoint) },
  );
}

export function isDeadlineError(error: unknown): boolean {
  return isEvenkeelError(error, 'EVENKEEL_DEADLINE');
}

function describe({ lease, stage }: Running): string {
  if (lease === undefined) return 'it waited for an endpoint';
  const address = endpointAddress(lease.endpoint);
  if (stage === 'connecting') return `it waited for a connection to ${address}`;
  return stage === 'sent' ? `no answer from ${address}` : `${address} was still answering`;
}
