import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../index.js';

/** The state of one socket; created when it is opened, so that a request allocates nothing. */
interface SocketState {
  isIdle: boolean;
  /** When it last became idle, and how long it may be idle, in ms. */
  sinceMs: number;
  limitMs: number;
  /** The same moment on the network's clock. */
  restsSinceMs: number;
}

/**
 * Tracks how long the sockets of one pod have been idle. One timer for all closes those that were idle for too long. One listener per
 * socket, for its whole life, closes those on which the pod sends data without a request.
 */
export class IdleSockets {
  readonly #clock: Clock;
  readonly #network: Clock;
  readonly #ended: (restedMs: number) => void;
  readonly #states = new Map<Socket, SocketState>();
  #sweep: Timer | undefined;
  /** When the timer fires; Infinity if there is none. */
  #sweepMs = Number.POSITIVE_INFINITY;

  /**
   * @param clock Limits how long sockets may be idle.
   * @param network Measures how long a pod has had to close them; real time, even if a test controls `clock`.
   * @param ended Called when the pod ended a socket that had been idle for this long, in ms of `network`.
   */
  constructor(clock: Clock, network: Clock, ended: (restedMs: number) => void) {
    this.#clock = clock;
    this.#network = network;
    this.#ended = ended;
  }

  /** Starts to watch a socket that is in use. Call the result to stop, when the socket is given away. */
  watch(socket: Socket): () => void {
    const state: SocketState = { isIdle: false, sinceMs: 0, limitMs: 0, restsSinceMs: 0 };
    // Whatever a pod sends unasked (a 408 before it closes) must not reach the next request.
    const onData = (): void => {
      if (state.isIdle) socket.destroy();
    };
    const onEnd = (): void => {
      if (state.isIdle) this.#ended(this.#network.now() - state.restsSinceMs);
    };
    const forget = (): void => {
      socket.off('data', onData).off('end', onEnd).off('error', onEnd);
      socket.off('close', forget);
      this.#states.delete(socket);
    };
    this.#states.set(socket, state);
    socket.on('data', onData).on('end', onEnd).on('error', onEnd);
    socket.on('close', forget);
    return forget;
  }

  /** A watched socket has become idle, and may be idle for `limitMs`. */
  add(socket: Socket, limitMs: number): void {
    const state = this.#states.get(socket);
    if (state === undefined) return;
    state.isIdle = true;
    state.sinceMs = this.#clock.now();
    state.limitMs = limitMs;
    state.restsSinceMs = this.#network.now();
    if (state.sinceMs + limitMs < this.#sweepMs) this.#sweepAfter(limitMs, state.sinceMs);
  }

  /** It is in use again. */
  remove(socket: Socket): void {
    const state = this.#states.get(socket);
    if (state !== undefined) state.isIdle = false;
  }

  /** How long a socket has been idle, in ms; undefined if it is not idle, or was for too long. */
  idleMs(socket: Socket): number | undefined {
    const state = this.#states.get(socket);
    if (state === undefined || !state.isIdle) return undefined;
    const idleMs = this.#clock.now() - state.sinceMs;
    return idleMs < state.limitMs ? idleMs : undefined;
  }

  /** How long the pod has had to close an idle socket, in ms; undefined if it is not idle. */
  restedMs(socket: Socket): number | undefined {
    const state = this.#states.get(socket);
    return state?.isIdle ? this.#network.now() - state.restsSinceMs : undefined;
  }

  /** Nothing becomes idle any longer. */
  stop(): void {
    this.#sweep?.cancel();
    // No socket expires before that.
    this.#sweepMs = Number.NEGATIVE_INFINITY;
  }

  #sweepAfter(delayMs: number, nowMs: number): void {
    this.#sweep?.cancel();
    this.#sweepMs = nowMs + delayMs;
    this.#sweep = this.#clock.timer(() => this.#endIdle(), delayMs);
  }

  #endIdle(): void {
    const nowMs = this.#clock.now();
    let restMs = Number.POSITIVE_INFINITY;
    for (const [socket, { isIdle, sinceMs, limitMs }] of this.#states) {
      if (!isIdle) continue;
      const leftMs = sinceMs + limitMs - nowMs;
      if (leftMs <= 0) socket.destroy();
      else restMs = Math.min(restMs, leftMs);
    }
    this.#sweepMs = Number.POSITIVE_INFINITY;
    if (restMs < Number.POSITIVE_INFINITY) this.#sweepAfter(restMs, nowMs);
  }
}
