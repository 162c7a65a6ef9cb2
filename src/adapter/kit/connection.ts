import type { Socket } from 'node:net';
import type { Connection } from '../../pool/transport.js';
import { Closing } from '../../runtime/closing.js';

/** What an adapter passes to create an `OpenConnection`. */
export interface ConnectionParts<C> {
  /** What a lease gives to its caller. */
  readonly handle: C;
  /** How many calls the connection takes at once. @defaultValue Infinity */
  readonly capacity?: number | undefined;
  /** Lets running calls finish, then closes the connection. Must lead to a call of the connection's `ended`. */
  readonly finish: () => void;
  /** Cuts running calls, and closes the connection. */
  readonly cut: () => void;
  /** Checks whether the other side is alive; rejects if it is not. @defaultValue none */
  readonly ping?: ((signal: AbortSignal) => Promise<void>) | undefined;
  /**
   * Called when the first call on the connection began, or the last one ended, according to `callBegins` and `callEnds`. @defaultValue none
   */
  readonly busy?: ((isBusy: boolean) => void) | undefined;
}

/**
 * A `Connection` that its adapter tells what happens: it has `ended`, it `leaves`, its capacity changed. If the adapter reports every
 * call on it (`callBegins`, `callEnds`), `close` waits for the last one.
 */
export class OpenConnection<C> implements Connection<C> {
  readonly handle: C;
  readonly closed: Promise<Error | undefined>;
  readonly leaving: Promise<void>;
  readonly ping?: (signal: AbortSignal) => Promise<void>;
  #capacity: number;
  #changed: () => void = () => {};
  #settleClosed!: (error: Error | undefined) => void;
  #settleLeaving!: () => void;
  readonly #closing: Closing;
  readonly #busy: ((isBusy: boolean) => void) | undefined;
  #running = 0;
  /** Closes the connection when its last call has ended; set from `close` until then. */
  #finish: (() => void) | undefined;
  #isEnded = false;

  constructor({ handle, capacity = Number.POSITIVE_INFINITY, finish, cut, ping, busy }: ConnectionParts<C>) {
    this.handle = handle;
    this.#busy = busy;
    this.#capacity = capacity;
    if (ping !== undefined) this.ping = ping;
    this.closed = new Promise((resolve) => {
      this.#settleClosed = resolve;
    });
    this.leaving = new Promise((resolve) => {
      this.#settleLeaving = resolve;
    });
    const whileOpen = (act: () => void) => (): void => {
      if (!this.#isEnded) act();
    };
    this.#closing = new Closing(async () => {
      this.#finish = whileOpen(finish);
      this.#finishIfIdle();
      await this.closed;
    }, whileOpen(cut));
  }

  get capacity(): number {
    return this.#capacity;
  }

  /** Sets how many calls the connection takes at once from now on. */
  carries(capacity: number): void {
    if (capacity === this.#capacity) return;
    this.#capacity = capacity;
    this.#changed();
  }

  watchCapacity(changed: () => void): void {
    this.#changed = changed;
  }

  /** How many calls run on the connection, of those the adapter reported. */
  get running(): number {
    return this.#running;
  }

  /** A call begins: `close` waits until `callEnds` has been called for it too. */
  callBegins(): void {
    if (this.#running++ === 0) this.#busy?.(true);
  }

  /** A call has ended. To be called exactly once for each `callBegins`, however it ended. */
  callEnds(): void {
    if (--this.#running > 0) return;
    this.#busy?.(false);
    this.#finishIfIdle();
  }

  /** The other side accepts no new call on this connection; running ones finish. */
  leaves(): void {
    this.#settleLeaving();
  }

  /**
   * The connection is closed, with the error that ended it, or without one after a clean end. Calls of this method after the first do
   * nothing.
   */
  ended(error?: Error): void {
    this.#isEnded = true;
    this.#settleClosed(error);
  }

  close(signal?: AbortSignal): Promise<void> {
    return this.#closing.close(signal);
  }

  #finishIfIdle(): void {
    if (this.#running > 0) return;
    const finish = this.#finish;
    this.#finish = undefined;
    finish?.();
  }
}

/**
 * A connection with one socket of its own. It closes by `finish` (by default the socket is ended after everything written has been sent,
 * and the other side closes when it has answered), is cut by destroying the socket, and has ended when the socket is closed. If calls
 * are reported, the process stays alive for it only while one is running; before the first one that is up to the socket (`unref`).
 */
export function socketConnection<C>(
  socket: Socket,
  parts: Pick<ConnectionParts<C>, 'handle' | 'capacity' | 'ping'> & { readonly finish?: (() => void) | undefined },
): OpenConnection<C> {
  const connection = new OpenConnection<C>({
    ...parts,
    finish: parts.finish ?? (() => socket.end()),
    cut: () => socket.destroy(),
    busy: (isBusy) => {
      if (isBusy) socket.ref();
      else socket.unref();
    },
  });
  let failure: Error | undefined;
  socket.on('error', (error) => {
    failure ??= error;
  });
  socket.once('close', () => connection.ended(failure));
  return connection;
}
