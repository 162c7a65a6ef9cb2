import type { Verb } from './api-server-access.js';
import type { RecordedRequest } from './api-server-record.js';
import { statusObject } from './api-server-status.js';

/** How the next requests fail. */
export type Fault =
  /** Responds with this status. 429 comes as plain text, everything else as a Status object unless `body` is set. */
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly retryAfterSeconds?: number;
      readonly reason?: string;
      readonly body?: string;
    }
  /** The request is accepted and never answered. */
  | { readonly kind: 'hang' }
  /** The connection is reset (TCP RST) instead of a response. */
  | { readonly kind: 'reset' }
  /** The server sends status 200 and headers, then nothing, forever. */
  | { readonly kind: 'silent' }
  /** The server sends status 200 and ends the body without a line. */
  | { readonly kind: 'empty' }
  /** The server sends the first bytes of the correct response, then cuts the connection. For lists and gets. */
  | { readonly kind: 'truncated'; readonly bytes: number }
  /** The server sends status 200 and this text as the body. */
  | { readonly kind: 'body'; readonly body: string }
  /** A watch that sends one ERROR event with this Status code, and ends. */
  | { readonly kind: 'error-event'; readonly status: number; readonly reason?: string };

/** Which of the next requests fail. */
export interface FaultOptions {
  /** How many of the next requests fail; may be Infinity. @defaultValue 1 */
  readonly times?: number;
  /** Only requests for which this returns true fail. @defaultValue all */
  readonly when?: (request: RecordedRequest) => boolean;
}

interface PendingFault {
  readonly verb: Verb | 'any';
  readonly fault: Fault;
  readonly when: ((request: RecordedRequest) => boolean) | undefined;
  left: number;
}

/** Pending faults, in order of registration. */
export class FaultQueue {
  #pending: PendingFault[] = [];

  add(verb: Verb | 'any', fault: Fault, { times = 1, when }: FaultOptions): void {
    this.#pending.push({ verb, fault, when, left: times });
  }

  /** The fault for this request, if any. */
  take(request: RecordedRequest): Fault | undefined {
    const pending = this.#pending.find(
      ({ verb, when }) => (verb === 'any' || verb === request.verb) && (when === undefined || when(request)),
    );
    if (pending === undefined) return undefined;
    pending.left -= 1;
    if (pending.left <= 0) this.#pending = this.#pending.filter((other) => other !== pending);
    return pending.fault;
  }

  clear(): void {
    this.#pending = [];
  }
}

/** Headers and body of a `status` fault. */
export function faultBody(fault: Fault & { readonly kind: 'status' }): {
  readonly type: string;
  readonly body: string;
} {
  if (fault.body !== undefined) return { type: 'text/plain; charset=utf-8', body: fault.body };
  if (fault.status === 429) {
    // Upstream's flow control answers before the API machinery: plain text, no Status.
    return { type: 'text/plain; charset=utf-8', body: 'Too many requests, please try again later.\n' };
  }
  const status = statusObject(
    fault.status,
    `scripted ${fault.status}`,
    fault.reason === undefined ? {} : { reason: fault.reason },
  );
  return { type: 'application/json', body: `${JSON.stringify(status)}\n` };
}
