import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../index.js';

/** What is known of one socket; made when it is opened, so that a request costs no object. */
interface SocketState {
  isIdle: boolean;
  /** When it became idle last, and for how long it may be, in ms. */
  sinceMs: number;
  limitMs: number;
  /** The same moment on the clock of the network. */
  restsSinceMs: number;
}

/**
 * How long the sockets of one pod have been idle. One timer for all ends those that are for too long; and one listener per
 * socket, for its whole life, ends those on which the pod speaks while nothing was asked of it.
 */
export class IdleSockets {
  readonly #clock: Clock;
  readonly #network: Clock;
  readonly #ended: (restedMs: number) => void;
  readonly #states = new Map<Socket, SocketState>();
  #sweep: Timer | undefined;
  /** When the timer is due; Infinity when there is none. */
  #sweepMs = Number.POSITIVE_INFINITY;

  /**
   * @param clock For how long sockets may be idle.
   * @param network For how long a pod has had to hang up on them; runs by itself, also where a test moves `clock`.
   * @param ended The pod ended a socket that had been idle for so long, in ms of `network`.
   */
  constructor(clock: Clock, network: Clock, ended: (restedMs: number) => void) {
    this.#clock = clock;
    this.#network = network;
    this.#ended = ended;
  }

  /** Begins to watch a socket, in use as yet. Returns what ends that, for one that is given away. */
  watch(socket: Socket): () => void {
    const state: SocketState = { isIdle: false, sinceMs: 0, limitMs: 0, restsSinceMs: 0 };
    // Whatever a pod says unasked (a 408 before it hangs up) must not meet the next request.
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

  /** A watched socket has become idle, and may be so for `limitMs`. */
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

  /** For how long a socket has been idle, in ms; undefined for one that is not, or was for too long. */
  idleMs(socket: Socket): number | undefined {
    const state = this.#states.get(socket);
    if (state === undefined || !state.isIdle) return undefined;
    const idleMs = this.#clock.now() - state.sinceMs;
    return idleMs < state.limitMs ? idleMs : undefined;
  }

  /** For how long its pod has had to hang up on a socket that is idle, in ms; undefined for one that is not. */
  restedMs(socket: Socket): number | undefined {
    const state = this.#states.get(socket);
    return state?.isIdle ? this.#network.now() - state.restsSinceMs : undefined;
  }

  /** Nothing becomes idle any more. */
  stop(): void {
    this.#sweep?.cancel();
    // None is ever due before that.
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
