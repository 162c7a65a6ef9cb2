import { type Endpoint, endpointAddress } from '../endpoint/endpoint.js';
import { asError, EvenkeelError } from '../errors.js';
import type { Clock, Timer } from '../runtime/clock.js';
import { deadline } from '../runtime/deadline.js';
import type { ConnectGate, GateVisitor } from './connect-gate.js';
import type { Connection, Transport } from './transport.js';

/** What an attempt needs. */
export interface ConnectAttemptParts<C> {
  readonly transport: Transport<C>;
  readonly endpoint: Endpoint;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly gate: ConnectGate;
  /** Recent consecutive failures of the endpoint. Other endpoints go first; also passed to the transport. */
  readonly failures: number;
  /** Exactly one of the two is called, once, never synchronously; none after `callOff`. */
  opened(connection: Connection<C>): void;
  failed(error: EvenkeelError): void;
  /** Takes a connection that arrives after the attempt was called off. */
  discard(connection: Connection<C>): void;
}

/**
 * One attempt at a connection: waits its turn, then connects within a time limit. Also handles a transport that ignores its
 * signal, throws instead of rejecting, or delivers something that is not a connection.
 */
export class ConnectAttempt<C> implements GateVisitor {
  readonly #parts: ConnectAttemptParts<C>;
  #over = false;
  #timer: Timer | undefined;
  #limit: AbortController | undefined;

  constructor(parts: ConnectAttemptParts<C>) {
    this.#parts = parts;
    parts.gate.enter(this, parts.failures);
  }

  /** Only the gate calls this. */
  begin(): void {
    const { transport, endpoint, timeoutMs, clock, failures } = this.#parts;
    const limit = new AbortController();
    this.#limit = limit;
    this.#timer = deadline(clock, () => this.#timedOut(), timeoutMs);
    let opening: Promise<Connection<C>>;
    try {
      opening = Promise.resolve(transport.connect(endpoint, limit.signal, failures));
    } catch (error) {
      opening = Promise.reject(error);
    }
    opening.then(
      (connection) => this.#delivered(connection),
      (error: unknown) => this.#refused(error),
    );
  }

  /** The connection is no longer wanted. Does nothing if the attempt is over. */
  callOff(): void {
    if (this.#over) return;
    this.#end(false);
    const address = endpointAddress(this.#parts.endpoint);
    this.#limit?.abort(new EvenkeelError('EVENKEEL_CLOSED', `connecting to ${address} was canceled`));
  }

  #delivered(connection: Connection<C>): void {
    const { endpoint } = this.#parts;
    const instead = notAConnection(connection);
    if (instead !== undefined) {
      if (this.#over) return;
      this.#fail(`the transport delivered no connection to ${endpointAddress(endpoint)}, but ${instead}`);
    } else if (this.#over) this.#parts.discard(connection);
    else {
      this.#end(true);
      this.#parts.opened(connection);
    }
  }

  #refused(cause: unknown): void {
    if (this.#over) return;
    this.#fail(`no connection to ${endpointAddress(this.#parts.endpoint)}: ${asError(cause).message}`, cause);
  }

  #timedOut(): void {
    const { endpoint, timeoutMs } = this.#parts;
    this.#fail(`${endpointAddress(endpoint)} did not accept a connection within ${timeoutMs} ms`);
  }

  #fail(message: string, cause?: unknown): void {
    const { endpoint } = this.#parts;
    this.#end(false);
    const error = new EvenkeelError('EVENKEEL_CONNECT', message, { cause, endpoint: endpointAddress(endpoint) });
    this.#limit?.abort(error);
    this.#parts.failed(error);
  }

  #end(connected: boolean): void {
    this.#over = true;
    this.#timer?.cancel();
    const { gate } = this.#parts;
    if (!gate.giveUp(this)) gate.left(this, connected);
  }
}

/** Why `value` is not a connection, in words; undefined if it is one. */
function notAConnection(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return String(value);
  const { closed, close, leaving, outdated } = value as {
    readonly closed?: unknown;
    readonly close?: unknown;
    readonly leaving?: unknown;
    readonly outdated?: unknown;
  };
  const missing: string[] = [];
  // Comparisons with NaN are always false: it would stay ready and never be picked.
  if (!hasCapacity(value)) missing.push('capacity (a number)');
  if (!isPromise(closed)) missing.push('closed (a promise)');
  if (leaving !== undefined && !isPromise(leaving)) missing.push('leaving (a promise)');
  if (outdated !== undefined && !isPromise(outdated)) missing.push('outdated (a promise)');
  if (typeof close !== 'function') missing.push('close (a function)');
  return missing.length === 0 ? undefined : `one without ${missing.join(', ')}`;
}

function isPromise(value: unknown): boolean {
  return typeof (value as { readonly then?: unknown } | null | undefined)?.then === 'function';
}

function hasCapacity(connection: { readonly capacity?: unknown }): boolean {
  try {
    const { capacity } = connection;
    return typeof capacity === 'number' && !Number.isNaN(capacity);
  } catch {
    // It exists; a pick notices if it throws.
    return true;
  }
}
