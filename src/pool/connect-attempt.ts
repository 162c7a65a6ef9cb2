import { type Endpoint, endpointAddress, withOtherFirst } from '../endpoint/endpoint.js';
import { asError, EvenkeelError } from '../errors.js';
import type { Clock, Timer } from '../runtime/clock.js';
import { deadline } from '../runtime/deadline.js';
import type { ConnectGate, GateVisitor } from './connect-gate.js';
import { isSameAtOtherAddress } from './lasting-error.js';
import type { Connection, Transport } from './transport.js';

/** What an attempt to connect needs from its subchannel. */
export interface ConnectAttemptParts<C> {
  readonly transport: Transport<C>;
  readonly endpoint: Endpoint;
  /** The time limit for each of the endpoint's addresses, in ms. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly gate: ConnectGate;
  /** Recent consecutive failures of the endpoint: attempts to endpoints with fewer go first; also passed to the transport. */
  readonly failures: number;
  /**
   * The attempt got a connection. Exactly one of `opened` and `failed` is called, once, never synchronously; neither after `callOff`.
   * @param address Which of the endpoint's addresses the connection was opened to.
   */
  opened(connection: Connection<C>, address: string): void;
  failed(error: EvenkeelError): void;
  /** Takes a connection that arrives after the attempt was called off. */
  discard(connection: Connection<C>): void;
}

/**
 * One attempt at a connection: waits its turn, then connects within a time limit, to the endpoint's other address if the first
 * fails. Also handles a transport that ignores its signal, throws instead of rejecting, or delivers something that is not a connection.
 */
export class ConnectAttempt<C> implements GateVisitor {
  readonly #parts: ConnectAttemptParts<C>;
  #over = false;
  /** The endpoint as it is dialed now: with the address in front that is being tried. */
  #dialed: Endpoint;
  /** The part of the error message about the endpoint's first address, which could not be connected to. */
  #before = '';
  #timer: Timer | undefined;
  #limit: AbortController | undefined;

  constructor(parts: ConnectAttemptParts<C>) {
    this.#parts = parts;
    this.#dialed = parts.endpoint;
    parts.gate.enter(this, parts.failures);
  }

  /** The attempt's turn has come. Only the gate calls this, and the attempt itself for the endpoint's other address. */
  begin(): void {
    const { transport, timeoutMs, clock, failures } = this.#parts;
    const limit = new AbortController();
    this.#limit = limit;
    this.#timer = deadline(clock, () => this.#timedOut(), timeoutMs);
    let opening: Promise<Connection<C>>;
    try {
      opening = Promise.resolve(transport.connect(this.#dialed, limit.signal, failures));
    } catch (error) {
      opening = Promise.reject(error);
    }
    opening.then(
      (connection) => this.#delivered(connection, limit),
      (error: unknown) => this.#refused(error, limit),
    );
  }

  /** The connection is no longer wanted. Does nothing if the attempt to connect is over. */
  callOff(): void {
    if (this.#over) return;
    this.#end(false);
    const address = endpointAddress(this.#dialed);
    this.#limit?.abort(new EvenkeelError('EVENKEEL_CLOSED', `connecting to ${address} was canceled`));
  }

  /** The transport has delivered a connection. @param limit Of which dial: that to the first address may end after it was given up. */
  #delivered(connection: Connection<C>, limit: AbortController): void {
    const isCurrent = !this.#over && limit === this.#limit;
    const instead = notAConnection(connection);
    if (instead !== undefined) {
      if (!isCurrent) return;
      this.#fail(`the transport delivered no connection to ${endpointAddress(this.#dialed)}, but ${instead}`);
    } else if (!isCurrent) this.#parts.discard(connection);
    else {
      this.#end(true);
      this.#parts.opened(connection, this.#dialed.address);
    }
  }

  #refused(cause: unknown, limit: AbortController): void {
    if (this.#over || limit !== this.#limit) return;
    const message = `no connection to ${endpointAddress(this.#dialed)}: ${asError(cause).message}`;
    if (isSameAtOtherAddress(cause)) this.#fail(message, cause);
    else this.#tryOther(message, cause);
  }

  #timedOut(): void {
    const { timeoutMs } = this.#parts;
    this.#tryOther(`${endpointAddress(this.#dialed)} did not accept a connection within ${timeoutMs} ms`);
  }

  /** One address could not be connected to: dials the endpoint's other address, unless there is none, or this was the other one. */
  #tryOther(message: string, cause?: unknown): void {
    const { endpoint } = this.#parts;
    if (endpoint.otherAddress === undefined || this.#dialed !== endpoint) {
      this.#fail(message, cause);
      return;
    }
    this.#timer?.cancel();
    this.#before = `${message}; `;
    this.#dialed = withOtherFirst(endpoint);
    const previous = this.#limit;
    this.begin();
    previous?.abort(this.#error(message, cause));
  }

  #fail(message: string, cause?: unknown): void {
    this.#end(false);
    const error = this.#error(`${this.#before}${message}`, cause);
    this.#limit?.abort(error);
    this.#parts.failed(error);
  }

  #error(message: string, cause: unknown): EvenkeelError {
    return new EvenkeelError('EVENKEEL_CONNECT', message, { cause, endpoint: endpointAddress(this.#dialed) });
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
  // A capacity of NaN would make all comparisons false: the connection would stay ready and never be picked.
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
    // The property exists; reading it throws, which a pick notices.
    return true;
  }
}
