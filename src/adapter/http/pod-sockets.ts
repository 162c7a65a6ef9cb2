import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Dialled } from './dial.js';
import { PodSignals } from './pod-signals.js';

/** Every socket to one pod, whatever uses it, so that none can leak. */
export class PodSockets {
  /**
   * How many sockets to the pod are open, not counting those that still connect. A field rather than a getter, because each request reads
   * it.
   */
  open = 0;
  readonly signals: PodSignals = new PodSignals(() => this.#sockets);
  readonly #dial: (dialled: Dialled) => Socket;
  /** Called when the pod's last socket has ended, with the system error that ended it, if any. */
  readonly #emptied: (failure: Error | undefined) => void;
  /** The sockets to the pod that are not closed: in use, upgraded, spare or still connecting. */
  readonly #sockets = new Set<Socket>();
  /** The sockets to the pod that are still connecting. */
  readonly #connecting = new Set<Socket>();
  /** A socket to the pod that is open and unused, and is watched for its end. */
  #spare: Socket | undefined;
  /** How many bytes arrived from the pod on sockets that are closed now. */
  #receivedBefore = 0;
  #allClosed: (() => void) | undefined;

  constructor(dial: (dialled: Dialled) => Socket, emptied: (failure: Error | undefined) => void) {
    this.#dial = dial;
    this.#emptied = emptied;
  }

  get connecting(): number {
    return this.#connecting.size;
  }

  get hasSpare(): boolean {
    return this.#spare !== undefined;
  }

  /** How many bytes have arrived from the pod since the beginning, on all its sockets. */
  get received(): number {
    let received = this.#receivedBefore;
    for (const socket of this.#sockets) received += socket.bytesRead;
    return received;
  }

  /**
   * Opens a socket for a waiting request.
   *
   * @param dial Opens the socket. @defaultValue the function that opens all other sockets
   */
  connect(dialled: Dialled, dial: (dialled: Dialled) => Socket = this.#dial): Socket {
    const socket = dial((error, opened) => {
      this.#connecting.delete(socket);
      // TLS wraps the dialed socket, and the TLS socket takes its place.
      if (error !== undefined || opened !== socket) this.#sockets.delete(socket);
      this.#count();
      if (error === undefined && opened !== socket) this.add(opened);
      dialled(error, opened);
    });
    this.#connecting.add(socket);
    this.add(socket);
    return socket;
  }

  /** Opens a socket before a request needs it; the socket does not keep the process alive. `signal` cancels that. */
  connectAhead(dialled: Dialled, signal?: AbortSignal): void {
    const giveUp = (): void => {
      socket.destroy();
    };
    const socket = this.connect((error, opened) => {
      signal?.removeEventListener('abort', giveUp);
      opened.unref();
      dialled(error, opened);
    });
    socket.unref();
    signal?.addEventListener('abort', giveUp, { once: true });
  }

  /** Counts a socket to the pod that other code opened. */
  add(socket: Socket): void {
    this.#sockets.add(socket);
    this.#count();
    let failure: Error | undefined;
    socket.on('error', (error) => {
      // Only errors of the system (a reset, a dead peer) and of TLS count against the pod. HTTP clients destroy sockets with errors of
      // their own for many reasons.
      if ((error as NodeJS.ErrnoException).syscall !== undefined || isTlsError(error)) failure = error;
      // A TLS error leaves the socket open, and Node reports it only to present listeners: a request that got this socket later would never
      // end.
      if (this.#spare === socket) socket.destroy();
    });
    socket.once('close', () => {
      this.#receivedBefore += socket.bytesRead;
      const wasOpen = !this.#connecting.delete(socket) && this.#sockets.delete(socket);
      this.#sockets.delete(socket);
      this.#count();
      if (this.#spare === socket) this.#spare = undefined;
      if (this.open === 0) this.signals.forget();
      if (this.#sockets.size > 0) return;
      this.#allClosed?.();
      if (wasOpen) this.#emptied(failure);
    });
  }

  #count(): void {
    this.open = this.#sockets.size - this.#connecting.size;
  }

  /** Keeps an open socket as the spare one, for a later request. */
  setAside(socket: Socket): void {
    this.#spare?.destroy();
    this.#spare = socket;
    // Whatever an HTTP/1.1 server sends before a request (a 408 before it closes) must not reach the first request. An HTTP/2 server speaks
    // first, and the session reads that when it takes over the socket.
    if ((socket as TLSSocket).alpnProtocol !== 'h2') socket.on('readable', onUnexpectedData);
  }

  /** Returns the spare socket if it is still usable; the socket then belongs to the caller. */
  takeSpare(): Socket | undefined {
    const socket = this.#spare;
    this.#spare = undefined;
    if (socket === undefined || socket.destroyed || socket.readableEnded || !socket.writable) return undefined;
    socket.off('readable', onUnexpectedData);
    socket.ref();
    return socket;
  }

  dropSpare(): void {
    this.#spare?.destroy();
    this.#spare = undefined;
  }

  destroyAll(error?: Error): void {
    for (const socket of this.#sockets) socket.destroy(error);
  }

  /** Resolves when no socket to the pod is left. */
  async allClosed(): Promise<void> {
    if (this.#sockets.size === 0) return;
    await new Promise<void>((resolve) => {
      this.#allClosed = resolve;
    });
  }
}

/**
 * Destroys a spare socket that receives data or its end. The end is only seen by reading, and data that nobody requested makes the socket
 * unusable.
 */
function onUnexpectedData(this: Socket): void {
  if (this.read() !== null) this.destroy();
}

/** Whether the error is a TLS alert of the other side, or was caused by bytes that are not TLS. */
export function isTlsError({ code }: Error & { readonly code?: unknown }): boolean {
  return typeof code === 'string' && code.startsWith('ERR_SSL_');
}
