import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { type Dispatcher, errors, Pool } from 'undici';
import type { Clock } from '../../index.js';
import { afterPendingIo } from '../kit/index.js';
import { ownOptions } from './request-options.js';

/** Whether HTTP/2 was agreed on for this socket. */
export function isHttp2(socket: Socket): boolean {
  return (socket as TLSSocket).alpnProtocol === 'h2';
}

/**
 * The Pool of a pod that speaks HTTP/2. It knows its sockets: when one has ended, and whether anything is received on them.
 *
 * What HTTP/2 must not carry (`allowH2: false` in its options) goes to `http1`, as with undici's Agent. undici asks for that when the
 * server does not open a WebSocket over HTTP/2, and for everything that comes from Node's own fetch.
 */
export class SessionPool extends Pool {
  readonly http1: Pool;
  /** Sockets in use. */
  readonly #sockets = new Set<Socket>();
  /** Bytes received on those that are closed by now. */
  #receivedBefore = 0;
  /** Ends that have come and that undici has not been told of. */
  #untoldEnds = 0;

  constructor(origin: URL | string, options: Pool.Options, http1: Pool) {
    super(origin, options);
    this.http1 = http1;
  }

  /** A request is kept back while the end of the session is known but not told yet: nobody would read it. */
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    if ((options as { readonly allowH2?: unknown }).allowH2 === false) return this.http1.dispatch(options, handler);
    if (this.#untoldEnds === 0) return super.dispatch(options, handler);
    const own = ownOptions(options);
    afterPendingIo(() => void super.dispatch(own, handler));
    return true;
  }

  /** The pool is about to get `socket`. */
  addSession(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => {
      this.#sockets.delete(socket);
      this.#receivedBefore += socket.bytesRead;
    });
    delayEnd(socket, (ends) => {
      this.#untoldEnds += ends;
    });
  }

  /** Ends connections on which nobody answers, and tells of it. Returns what ends the watch. */
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
 * Has the socket of an HTTP/2 session tell of the other side's end only when everything that came before it has been passed on.
 * undici destroys a session as soon as it hears of the end (`onHttp2SocketEnd`). The last frames may have been read in the same
 * turn, and their content reaches the streams some ticks later: complete responses would be lost if the pod hangs up after sending
 * them. Seen in undici 8.12 on Node 22 and 24, whenever the client was busy as they came.
 *
 * The close of the socket waits for that too: Node ends the streams in good order when it hears of it, and a response that was cut
 * off would pass for a complete one if undici had not heard of the end before.
 *
 * @param untold Called with 1 when an end has come, with -1 when it is told.
 */
export function delayEnd(socket: Socket, untold: (ends: 1 | -1) => void = () => {}): void {
  const emit = socket.emit.bind(socket) as (event: string, ...values: unknown[]) => boolean;
  let isUntold = false;
  /** Tells of a close that came meanwhile. */
  let tellClose: (() => boolean) | undefined;
  socket.emit = (event: string, ...values: unknown[]): boolean => {
    if (event === 'close' && isUntold) {
      tellClose = () => emit(event, ...values);
      return true;
    }
    if (event !== 'end') return emit(event, ...values);
    isUntold = true;
    untold(1);
    afterPendingIo(() => {
      isUntold = false;
      untold(-1);
      emit(event);
      if (tellClose === undefined) return;
      // undici destroys the socket with this as it hears of the end, and so fails what runs; Node was first.
      if (socket.listenerCount('error') > 0) emit('error', new errors.SocketError('other side closed'));
      tellClose();
    });
    return true;
  };
}

/**
 * How often undici sends an HTTP/2 PING, in ms. A live connection is therefore never silent for much longer than this, whatever its
 * requests are waiting for.
 */
export const PING_MS = 4_000;
/** This many consecutive checks without a byte end a connection. */
const SILENT_CHECKS = 3;

/**
 * Finds HTTP/2 connections on which nobody answers: the pod's machine is gone, its process is frozen, or Node did not notice the end
 * of the socket (nodejs/node#61304). undici sends PINGs but does not act when no answer comes, so requests on such a connection
 * would hang.
 *
 * It counts checks, not time: after our own event loop stalled one check comes late, and whatever arrived meanwhile is read before
 * the next.
 *
 * @param received Bytes received so far; undefined while there is no connection that sends PINGs.
 * @param dead The connection is of no use. The watch goes on: another may follow.
 * @returns What ends the watch.
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
    const now = received();
    silentChecks = now !== undefined && now === last ? silentChecks + 1 : 0;
    last = now;
    if (silentChecks < SILENT_CHECKS) return;
    silentChecks = 0;
    dead(SILENT_CHECKS * PING_MS);
  };
  let timer = clock.timer(check, PING_MS);
  return () => timer.cancel();
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
