import type { Socket } from 'node:net';
import { type Dispatcher, errors, Pool } from 'undici';
import type { Clock, Timer } from '../../index.js';
import { afterPendingIo } from '../kit/index.js';
import { ownOptions } from './request-options.js';

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

/**
 * How often undici sends an HTTP/2 PING, in ms. A live connection is therefore never silent for much longer than this,
 * whatever its requests are waiting for.
 */
export const PING_MS = 4_000;
/** This many consecutive checks without a byte end a connection. */
const SILENT_LOOKS = 3;

/**
 * Finds HTTP/2 connections nobody answers on: the pod's machine is gone, its process is frozen, or Node did not notice
 * the end of the socket (nodejs/node#61304). undici sends PINGs, but does not mind when no answer comes: requests on such a
 * connection would hang.
 *
 * Counts looks, not time: after a stall of our own event loop one look comes late, and what arrived meanwhile is read
 * before the next.
 */
export class SilenceWatch {
  readonly #clock: Clock;
  readonly #received: () => number | undefined;
  readonly #dead: (silentMs: number) => void;
  #timer: Timer | undefined;
  #last: number | undefined;
  #silentLooks = 0;

  /**
   * @param received Bytes received so far; undefined while there is no connection that sends PINGs.
   * @param dead The connection is of no use. The watch goes on: another may follow.
   */
  constructor(clock: Clock, received: () => number | undefined, dead: (silentMs: number) => void) {
    this.#clock = clock;
    this.#received = received;
    this.#dead = dead;
    this.#arm();
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #arm(): void {
    this.#timer = this.#clock.timer(() => this.#look(), PING_MS);
  }

  #look(): void {
    this.#arm();
    const received = this.#received();
    const silent = received !== undefined && received === this.#last;
    this.#last = received;
    this.#silentLooks = silent ? this.#silentLooks + 1 : 0;
    if (this.#silentLooks < SILENT_LOOKS) return;
    this.#silentLooks = 0;
    this.#dead(SILENT_LOOKS * PING_MS);
  }
}

/** The error code REFUSED_STREAM (RFC 9113, 7). */
const REFUSED_STREAM = 7;
/** What undici fails a request with that a GOAWAY without an error left out. */
const GOAWAY = 'HTTP/2: "GOAWAY" frame received with code 0';

/**
 * Whether `error` says that the pod did nothing of an HTTP/2 request that was sent: it refused the stream (RFC 9113, 8.7),
 * or its GOAWAY names an earlier stream as the last it looked at (6.8). It may then be sent again, whatever its method.
 * undici 8 does that itself, once; it fails with this what is refused again, or has a body that is there no more.
 *
 * To the letter, since a POST depends on it. From 8.10 on (seen to 8.12) requests that fail with UND_ERR_INFO are only the
 * ones that were left out.
 */
export function isRefusedError(error: Error): boolean {
  const { code, message, http2ErrorCode } = error as Error & { code?: unknown; http2ErrorCode?: unknown };
  if (code === 'ERR_HTTP2_STREAM_ERROR') return http2ErrorCode === REFUSED_STREAM;
  return code === 'UND_ERR_INFO' && message === GOAWAY;
}
