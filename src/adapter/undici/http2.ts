import type { Socket } from 'node:net';
import { type Dispatcher, errors, Pool } from 'undici';
import type { Clock } from '../../index.js';
import { PodSignals } from '../http/pod-signals.js';
import { afterPendingIo } from '../kit/index.js';
import { http2SessionOf } from './internals.js';
import { ownOptions } from './request-options.js';

/**
 * The undici Pool of a pod that speaks HTTP/2. It watches its sockets: whether one has ended, and whether bytes still arrive.
 *
 * Requests that must not use HTTP/2 (`allowH2: false` in their options) go to `http1`, as in undici's Agent. undici sets that option when a
 * server refuses to open a WebSocket over HTTP/2, and for all requests of Node's own `fetch`.
 */
export class Http2Pool extends Pool {
  readonly http1: Pool;
  /**
   * Whether upgrades go over HTTP/1.1. They do in the clear, because no server is known to offer WebSockets over HTTP/2 there, and undici
   * upgrades to nothing else.
   */
  readonly #upgradesHttp1: boolean;
  readonly signals: PodSignals;
  /** The pod's sockets that carry HTTP/2 sessions. */
  readonly #sockets = new Set<Socket>();
  /** How many bytes arrived from the pod on sockets that are closed by now. */
  #receivedBefore = 0;
  /** How many sockets have ended without undici having been notified yet. */
  #delayedEnds = 0;

  constructor(
    origin: URL | string,
    options: Pool.Options,
    http1: Pool,
    signals: PodSignals = new PodSignals(() => []),
  ) {
    super(origin, options);
    this.http1 = http1;
    this.#upgradesHttp1 = new URL(origin).protocol === 'http:';
    this.signals = signals;
  }

  /**
   * Sends a request to the pod. While a session has ended and undici has not been notified, the request waits, because nobody would read
   * what is sent on that session.
   */
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const isHttp1 =
      (options as { readonly allowH2?: unknown }).allowH2 === false || (options.upgrade && this.#upgradesHttp1);
    if (isHttp1) return this.http1.dispatch(options, handler);
    if (this.#delayedEnds === 0) return super.dispatch(options, handler);
    const optionsCopy = ownOptions(options);
    afterPendingIo(() => void super.dispatch(optionsCopy, handler));
    return true;
  }

  /**
   * Watches a socket that the pool is about to get for an HTTP/2 session.
   *
   * @param allowed Called with the number of streams that the pod allows, whenever the pod says it. `isFirst`: nothing was sent before.
   */
  addSession(socket: Socket, allowed: (streams: number, isFirst: boolean) => void = () => {}): void {
    this.#sockets.add(socket);
    let isFirst = true;
    // undici creates the session when it gets the socket, and the pod's settings are read later than that.
    queueMicrotask(() => {
      http2SessionOf(socket)?.on('remoteSettings', ({ maxConcurrentStreams: streams = Infinity }) => {
        const wasFirst = isFirst;
        isFirst = false;
        allowed(streams, wasFirst);
      });
    });
    // A session ends its side of the connection once it takes no more streams and none is left. Some pods do not end theirs then.
    socket.once('finish', () => socket.destroy());
    socket.once('close', () => {
      this.#sockets.delete(socket);
      this.#receivedBefore += socket.bytesRead;
    });
    delayEnd(socket, (ends) => {
      this.#delayedEnds += ends;
    });
  }

  /** Closes HTTP/2 connections that no longer respond, and then calls `ended`. Call the result to stop watching. */
  watchSilence(clock: Clock, ended: () => void): () => void {
    return watchSilence(
      clock,
      () => (this.#sockets.size > 0 ? this.#received : undefined),
      (silentMs) => {
        const error = new errors.SocketError(`no answer to an HTTP/2 PING for ${silentMs} ms`);
        for (const socket of this.#sockets) socket.destroy(error);
        ended();
      },
    );
  }

  get #received(): number {
    let received = this.#receivedBefore;
    for (const { bytesRead } of this.#sockets) received += bytesRead;
    return received;
  }
}

/**
 * Delays the `end` event of an HTTP/2 session's socket until everything received before it has been passed on. undici destroys a session as
 * soon as its socket ends (`onHttp2SocketEnd`). The last frames may have been read in the same turn, and their content reaches the streams
 * some ticks later: complete responses would be lost if the pod hangs up after sending them. Seen in undici 8.12 on Node 22 and 24 if the
 * client is busy when they arrive.
 *
 * The socket's `close` event is delayed too. Node ends the streams in good order when the socket closes, so a response that was cut off
 * would look complete if undici had not been notified of the end before.
 *
 * @param delayed Called with 1 when the socket has ended, and with -1 when undici is notified.
 */
export function delayEnd(socket: Socket, delayed: (ends: 1 | -1) => void = () => {}): void {
  const emit = socket.emit.bind(socket) as (event: string, ...values: unknown[]) => boolean;
  let isDelayed = false;
  /** Emits the delayed `close` event of the socket, if it came meanwhile. */
  let emitClose: (() => boolean) | undefined;
  socket.emit = (event: string, ...values: unknown[]): boolean => {
    if (event === 'close' && isDelayed) {
      emitClose = () => emit(event, ...values);
      return true;
    }
    if (event !== 'end') return emit(event, ...values);
    isDelayed = true;
    delayed(1);
    afterPendingIo(() => {
      isDelayed = false;
      delayed(-1);
      emit(event);
      if (emitClose === undefined) return;
      // undici destroys the socket with this error when it is notified of the end, which fails running requests. Here Node has already
      // closed the socket, so the error is emitted instead.
      if (socket.listenerCount('error') > 0) emit('error', new errors.SocketError('other side closed'));
      emitClose();
    });
    return true;
  };
}

/** How often undici sends an HTTP/2 PING, in ms. So a live connection is never silent for much longer, whatever its requests wait for. */
export const PING_MS = 4_000;
/** The number of consecutive checks without a received byte after which an HTTP/2 connection is closed. */
const SILENT_CHECKS = 3;

/**
 * Finds HTTP/2 connections that no longer respond: the pod's machine is gone, its process is frozen, or Node did not notice the end of the
 * socket (nodejs/node#61304). undici sends PINGs but ignores missing answers, so requests on such a connection would hang.
 *
 * Checks are counted, not time: after our own event loop stalled, only one check is late, and whatever arrived meanwhile is read before the
 * next check.
 *
 * @param received Returns how many bytes arrived so far; undefined while there is no connection that sends PINGs.
 * @param dead Called when the connection is dead. Watching continues, because another connection may follow.
 * @returns A function that stops watching.
 */
export function watchSilence(
  clock: Clock,
  received: () => number | undefined,
  dead: (silentMs: number) => void,
): () => void {
  let last: number | undefined;
  let silentChecks = 0;
  const check = (): void => {
    timer = clock.timer(check, PING_MS);
    const receivedNow = received();
    silentChecks = receivedNow !== undefined && receivedNow === last ? silentChecks + 1 : 0;
    last = receivedNow;
    if (silentChecks < SILENT_CHECKS) return;
    silentChecks = 0;
    dead(SILENT_CHECKS * PING_MS);
  };
  let timer = clock.timer(check, PING_MS);
  return () => timer.cancel();
}
