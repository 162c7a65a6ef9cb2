import type { Socket } from 'node:net';
import type { Connection } from '../../pool/transport.js';
import { Closing } from '../../runtime/closing.js';

/** What an adapter passes to create an `OpenConnection`. */
export interface ConnectionParts<C> {
  /** The object that a lease gives to its caller, such as an undici client. */
  readonly handle: C;
  /** How many calls the connection takes at once. @defaultValue Infinity */
  readonly capacity?: number | undefined;
  /** Lets running calls finish, then closes the connection. Once the connection is closed, the adapter must call `ended`. */
  readonly finish: () => void;
  /** Cuts the running calls and closes the connection at once. */
  readonly cut: () => void;
  /** Checks whether the server still responds on this connection; rejects if it does not. @defaultValue none */
  readonly ping?: ((signal: AbortSignal) => Promise<void>) | undefined;
  /**
   * Called with true when a call begins on the idle connection, and with false when the last running call has ended. Needs an adapter that
   * calls `callBegins` and `callEnds`. @defaultValue none
   */
  readonly busy?: ((isBusy: boolean) => void) | undefined;
}

/**
 * A `Connection` whose adapter reports what happens to the connection: `ended`, `leaves`, a new capacity. If the adapter also reports every
 * call (`callBegins`, `callEnds`), `close` waits for the last call.
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
  /** Closes the connection when its last call has ended. Set by `close`, and removed when it was called. */
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

  /** How many of the calls that the adapter reported with `callBegins` are still running. */
  get running(): number {
    return this.#running;
  }

  /** A call begins on this connection. `close` waits until `callEnds` was called for it. */
  callBegins(): void {
    if (this.#running++ === 0) this.#busy?.(true);
  }

  /** A call on this connection has ended. Must be called exactly once for each `callBegins`, whatever the outcome of the call. */
  callEnds(): void {
    if (--this.#running > 0) return;
    this.#busy?.(false);
    this.#finishIfIdle();
  }

  /** The server accepts no new call on this connection; running calls may finish. */
  leaves(): void {
    this.#settleLeaving();
  }

  /** The connection is closed. `error` is what ended it; a clean end has none. Further calls of this method do nothing. */
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
 * Creates a connection that consists of one socket. To finish, the socket is ended after everything written was sent, unless `finish` does
 * something else. To cut, the socket is destroyed. The connection has ended when the socket is closed. If the adapter reports calls, the
 * socket keeps the process alive only while a call is running; before the first call the adapter decides with `socket.unref()`.
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
