import type { Socket } from 'node:net';
import { type Dispatcher, errors, Pool } from 'undici';
import { afterPendingIo } from '../kit/index.js';
import { ownOptions } from './own-options.js';

/**
 * Has the sockets of HTTP/2 sessions tell of the other side's end only once all that came before it has been passed on.
 * undici destroys a session the moment it hears of the end (`onHttp2SocketEnd`). The last frames may have been read in the
 * same turn, and what they carry reaches the streams some ticks later: answers the pod gave in full would be lost when it
 * hangs up behind them. Seen in undici 8.12 on Node 22 and 24, whenever the client was busy as they came.
 *
 * The close of the socket waits for that, too: Node ends the streams in good order when it hears of it, and an answer that
 * was cut off would pass for a complete one if undici had not heard of the end before.
 */
export class DeferredEnds {
  #pending = 0;

  /** An end has come and was not told yet: nothing new should be sent. */
  get pending(): boolean {
    return this.#pending > 0;
  }

  /** From now on `socket` tells late. */
  delay(socket: Socket): void {
    const emit = socket.emit.bind(socket) as (event: string, ...values: unknown[]) => boolean;
    let untold = false;
    /** Tells of a close that came meanwhile. */
    let tellClose: (() => boolean) | undefined;
    socket.emit = (event: string, ...values: unknown[]): boolean => {
      if (event === 'close' && untold) {
        tellClose = () => emit(event, ...values);
        return true;
      }
      if (event !== 'end') return emit(event, ...values);
      untold = true;
      this.#pending++;
      afterPendingIo(() => {
        untold = false;
        this.#pending--;
        emit(event);
        if (tellClose === undefined) return;
        // undici destroys the socket with this as it hears of the end, and so fails what runs; Node was first.
        if (socket.listenerCount('error') > 0) emit('error', new errors.SocketError('other side closed'));
        tellClose();
      });
      return true;
    };
  }
}

/**
 * A Pool that begins nothing while the end of its session is known and not told yet: it would be sent to nobody.
 *
 * What HTTP/2 must not carry (`allowH2: false` in its options) goes to `http1`, as by undici's Agent. undici says so of a
 * WebSocket the server does not open over HTTP/2, and of all that comes from the fetch of Node.
 */
export class SessionPool extends Pool {
  readonly http1: Pool;
  readonly #ends: DeferredEnds;

  constructor(origin: URL | string, options: Pool.Options, ends: DeferredEnds, http1: Pool) {
    super(origin, options);
    this.#ends = ends;
    this.http1 = http1;
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    if ((options as { readonly allowH2?: unknown }).allowH2 === false) return this.http1.dispatch(options, handler);
    if (!this.#ends.pending) return super.dispatch(options, handler);
    const own = ownOptions(options);
    afterPendingIo(() => void super.dispatch(own, handler));
    return true;
  }
}
