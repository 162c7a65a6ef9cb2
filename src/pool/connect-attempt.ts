import { type Endpoint, endpointAddress, withOtherFirst } from '../endpoint/endpoint.js';
import { asError, EvenkeelError } from '../errors.js';
import type { Clock, Timer } from '../runtime/clock.js';
import { deadline } from '../runtime/deadline.js';
import type { ConnectGate, WaitingDial } from './connect-gate.js';
import { isSameAtOtherAddress } from './lasting-error.js';
import type { Connection, Transport } from './transport.js';

/** What an attempt to connect needs from its subchannel. */
export interface ConnectAttemptParts<C> {
  readonly transport: Transport<C>;
  readonly endpoint: Endpoint;
  /** How long connecting to one of the endpoint's addresses may take, in ms. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly gate: ConnectGate;
  /**
   * How many attempts in a row failed on the endpoint recently. Attempts to endpoints with fewer failures go first; the transport gets this
   * number too.
   */
  readonly failures: number;
  /**
   * The attempt got a connection. Either `opened` or `failed` is called, once and never synchronously; neither is called after `callOff`.
   *
   * @param address The address of the endpoint to which the connection was opened.
   */
  opened(connection: Connection<C>, address: string): void;
  failed(error: EvenkeelError): void;
  /** The attempt was called off while the transport connects; `dial` settles when it has finished. */
  calledOff(dial: Promise<unknown>): void;
  /** Gets rid of a connection that arrives after the attempt was called off. */
  discard(connection: Connection<C>): void;
}

/**
 * One attempt to connect to an endpoint. It waits its turn, then connects within a time limit; if that fails, it tries the endpoint's other
 * address. It also copes with a transport that ignores its signal, throws instead of rejecting, or delivers something that is not a
 * connection.
 */
export class ConnectAttempt<C> implements WaitingDial {
  readonly #parts: ConnectAttemptParts<C>;
  #over = false;
  /** The endpoint as it is dialed now, with the address that is being tried in front. */
  #dialed: Endpoint;
  /** The beginning of the error message, about the endpoint's first address, to which no connection could be opened. */
  #before = '';
  #timer: Timer | undefined;
  #limit: AbortController | undefined;
  /** What the transport returned for the dial that is running. */
  #dial: Promise<unknown> | undefined;

  constructor(parts: ConnectAttemptParts<C>) {
    this.#parts = parts;
    this.#dialed = parts.endpoint;
    parts.gate.enqueue(this, parts.failures);
  }

  /** The address of the endpoint that is being dialed, or will be when the attempt's turn comes. */
  get address(): string {
    return this.#dialed.address;
  }

  /** Begins to connect, when the attempt's turn has come. The gate calls this, and the attempt itself for the endpoint's other address. */
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
    this.#dial = opening;
  }

  /** Ends the attempt because the connection is no longer wanted. Does nothing if the attempt is over. */
  callOff(): void {
    if (this.#over) return;
    this.#end(false);
    const address = endpointAddress(this.#dialed);
    this.#limit?.abort(new EvenkeelError('EVENKEEL_CLOSED', `connecting to ${address} was canceled`));
    if (this.#dial !== undefined) this.#parts.calledOff(this.#dial);
  }

  /**
   * Takes what the transport delivered. @param limit The controller of the dial that delivered it: the dial to the first address may still
   * deliver after it was given up.
   */
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

  /** Connecting to one address failed. Dials the endpoint's other address, unless there is none or it was tried too. */
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
    if (!gate.cancel(this)) gate.ended(this, connected);
  }
}

/** Says in words why `value` is not a connection; undefined if it is one. */
function notAConnection(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return String(value);
  const { closed, close, leaving, outdated } = value as {
    readonly closed?: unknown;
    readonly close?: unknown;
    readonly leaving?: unknown;
    readonly outdated?: unknown;
  };
  const missing: string[] = [];
  // A capacity of NaN makes every comparison false, so such a connection would be ready and never picked.
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
    // The property exists, but reading it throws. A later pick will notice that.
    return true;
  }
}
