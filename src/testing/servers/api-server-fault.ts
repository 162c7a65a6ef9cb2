import type { Verb } from './api-server-access.js';
import type { RecordedRequest } from './api-server-record.js';
import { statusObject } from './api-server-status.js';

/** How the next requests to the API server fail. */
export type Fault =
  /** The server responds with this status. Status 429 comes as plain text, any other as a Status object unless `body` is set. */
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly retryAfterSeconds?: number;
      readonly reason?: string;
      readonly body?: string;
    }
  /** The server accepts the request and never responds. */
  | { readonly kind: 'hang' }
  /** The server resets the connection (TCP RST) instead of responding. */
  | { readonly kind: 'reset' }
  /** The server sends status 200 and headers, then nothing, forever. */
  | { readonly kind: 'silent' }
  /** The server sends status 200 and ends the body without a line. */
  | { readonly kind: 'empty' }
  /** The server sends the first bytes of the correct response, then cuts the connection. For lists and gets. */
  | { readonly kind: 'truncated'; readonly bytes: number }
  /** The server sends status 200 and this text as the body. */
  | { readonly kind: 'body'; readonly body: string }
  /** The server sends one ERROR event with this Status code on a watch, and ends it. */
  | { readonly kind: 'error-event'; readonly status: number; readonly reason?: string };

/** Which of the next requests to the API server fail. */
export interface FaultOptions {
  /** How many of the next requests fail; may be Infinity. @defaultValue 1 */
  readonly times?: number;
  /** Returns whether a request fails. @defaultValue every request fails */
  readonly when?: (request: RecordedRequest) => boolean;
}

interface PendingFault {
  readonly verb: Verb | 'any';
  readonly fault: Fault;
  readonly when: ((request: RecordedRequest) => boolean) | undefined;
  left: number;
}

/** The faults that requests have not met yet, in order of registration. */
export class FaultQueue {
  #pending: PendingFault[] = [];

  add(verb: Verb | 'any', fault: Fault, { times = 1, when }: FaultOptions): void {
    this.#pending.push({ verb, fault, when, left: times });
  }

  /** Takes the fault for this request out of the queue; undefined if there is none. */
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

/** The content type and the body of the response for a `status` fault. */
export function faultBody(fault: Fault & { readonly kind: 'status' }): {
  readonly type: string;
  readonly body: string;
} {
  if (fault.body !== undefined) return { type: 'text/plain; charset=utf-8', body: fault.body };
  if (fault.status === 429) {
    // A real API server's flow control responds before its API machinery, in plain text and without a Status.
    return { type: 'text/plain; charset=utf-8', body: 'Too many requests, please try again later.\n' };
  }
  const status = statusObject(
    fault.status,
    `scripted ${fault.status}`,
    fault.reason === undefined ? {} : { reason: fault.reason },
  );
  return { type: 'application/json', body: `${JSON.stringify(status)}\n` };
}
