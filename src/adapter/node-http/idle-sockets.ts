import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../index.js';
import type { SocketTaker } from '../http/internals.js';

/** How long before the pod would close an idle socket the socket is closed, in ms, if the pod's idle timeout is long enough. */
const MARGIN_MS = 2_000;
/**
 * The least time before the pod would close an idle socket at which the socket is closed, in ms. If the pod's idle timeout is shorter than
 * that, each connection carries one request, as with Node's own Agent.
 */
const MIN_MARGIN_MS = 1_000;

/**
 * How long a socket may be idle, in ms; 0 = it must not be used again.
 *
 * @param limitMs The limit that evenkeel's options set.
 * @param hint The Keep-Alive header of the last response, such as `timeout=5`.
 */
export function keepAliveMs(limitMs: number, hint: unknown): number {
  const seconds = typeof hint === 'string' ? /(?:^|[\s,;])timeout=(\d{1,9})/i.exec(hint)?.[1] : undefined;
  if (seconds === undefined) return limitMs;
  const endsMs = Number(seconds) * 1_000;
  const marginMs = Math.max(MIN_MARGIN_MS, Math.min(MARGIN_MS, endsMs / 2));
  return Math.max(0, Math.min(limitMs, endsMs - marginMs));
}

/** The state of one socket; created when the socket is opened, so that a request allocates nothing. */
interface SocketState {
  isIdle: boolean;
  /** When the socket last became idle, a time of the injected clock, and how long it may be idle, in ms. */
  sinceMs: number;
  limitMs: number;
  /** When the socket last became idle, in real time, which measures how long the pod has had to close it. */
  restsSinceMs: number;
}

/**
 * The idle sockets of one pod: how long each has been idle, and which may carry a request. One timer for all sockets closes those that were
 * idle for too long. One listener per socket, for its whole life, closes sockets on which the pod sends data without a request.
 */
export class IdleSockets {
  readonly trial: ReuseTrial;
  readonly #clock: Clock;
  readonly #network: Clock;
  readonly #states = new Map<Socket, SocketState>();
  #sweep: Timer | undefined;
  /** When the timer that closes expired idle sockets fires; Infinity if there is none. */
  #sweepMs = Number.POSITIVE_INFINITY;

  /**
   * @param clock The clock that limits how long sockets may be idle.
   * @param network The clock that measures how long a pod has had to close idle sockets; real time, even if a test controls `clock`.
   */
  constructor(clock: Clock, network: Clock) {
    this.trial = new ReuseTrial(network);
    this.#clock = clock;
    this.#network = network;
  }

  /** Starts to watch a socket that is in use. Call the result to stop, when the socket is handed to its caller. */
  watch(socket: Socket): () => void {
    const state: SocketState = { isIdle: false, sinceMs: 0, limitMs: 0, restsSinceMs: 0 };
    // Data that a pod sends without a request (a 408 before it closes) must not reach the next request.
    const onData = (): void => {
      if (state.isIdle) socket.destroy();
    };
    const onEnd = (): void => {
      if (state.isIdle) this.trial.ended(this.#network.now() - state.restsSinceMs);
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

  /** Notes that a watched socket has become idle, and may be idle for `limitMs`. */
  add(socket: Socket, limitMs: number): void {
    const state = this.#states.get(socket);
    if (state === undefined) return;
    state.isIdle = true;
    state.sinceMs = this.#clock.now();
    state.limitMs = limitMs;
    state.restsSinceMs = this.#network.now();
    if (state.sinceMs + limitMs < this.#sweepMs) this.#sweepAfter(limitMs, state.sinceMs);
  }

  /** Notes that an idle socket is in use again. */
  remove(socket: Socket): void {
    const state = this.#states.get(socket);
    if (state !== undefined) state.isIdle = false;
  }

  /** How long a socket has been idle, in ms; undefined if it is not idle, or was idle for too long. */
  idleMs(socket: Socket): number | undefined {
    const state = this.#states.get(socket);
    if (state === undefined || !state.isIdle) return undefined;
    const idleMs = this.#clock.now() - state.sinceMs;
    return idleMs < state.limitMs ? idleMs : undefined;
  }

  /** How long the pod has had to close an idle socket, in ms; undefined if the socket is not idle. */
  restedMs(socket: Socket): number | undefined {
    const state = this.#states.get(socket);
    return state?.isIdle ? this.#network.now() - state.restsSinceMs : undefined;
  }

  /** How long the last of these sockets has been idle, in ms; Node's Agent takes that socket next. Removes unusable sockets first. */
  newestMs(sockets: Socket[] | undefined): number | undefined {
    for (let socket = sockets?.at(-1); socket !== undefined; socket = sockets?.at(-1)) {
      // The socket may have been idle for too long already, because timers are late when the event loop is busy.
      const idleMs = this.idleMs(socket);
      if (idleMs !== undefined && isOpen(socket)) return idleMs;
      sockets?.pop();
      socket.destroy();
    }
    return undefined;
  }

  /**
   * Decides what a request does if there are these idle sockets. @param untilMs Until when the request may wait. @param isFull Whether no
   * further socket may be opened.
   */
  decide(sockets: readonly Socket[], untilMs: number, isFull: boolean): Reuse {
    return this.trial.decide(this.restedMs(sockets[0] as Socket) ?? 0, untilMs, isFull);
  }

  /**
   * Moves a socket that a request may use to where Node's Agent takes it next, during the trial of a pod's idle connections. Returns false
   * if there is no such socket.
   */
  putForward(sockets: Socket[], request: SocketTaker, untilMs: number, isFull: boolean): boolean {
    const { trial } = this;
    if (!trial.mayTry(untilMs, isFull)) return false;
    for (let index = sockets.length - 1; index >= 0; index--) {
      const socket = sockets[index] as Socket;
      // An unusable socket is closed when it is its turn.
      if (!isOpen(socket) || !trial.hasRested(this.restedMs(socket) ?? 0)) continue;
      sockets.splice(index, 1);
      sockets.push(socket);
      trial.tries(request);
      return true;
    }
    return false;
  }

  /** Stops the timer, because the pod's agent stops: no socket becomes idle any longer. */
  stop(): void {
    this.#sweep?.cancel();
    // With this time in the past, no socket that becomes idle sets a timer.
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

/** Whether neither side has closed the socket. */
function isOpen(socket: Socket): boolean {
  return !socket.destroyed && socket.writable && !socket.readableEnded;
}

/** Whether a pod keeps its connections open after a response, as far as is known. */
type Keeps = 'unknown' | 'yes' | 'no';

/**
 * How long a connection must be idle, in ms, to count as rested: a pod that closes connections after responses has mostly done so by then.
 */
const REST_MS = 5;
/** How long a connection must at least be idle, in ms, to count as rested after the pod has closed a rested connection. */
const LONG_REST_MS = 100;
/** The factor by which the required rest grows over the longest rest that was not enough, after the pod has closed a rested connection. */
const REST_FACTOR = 2;
/**
 * A connection that was idle for at most this long when the pod closed it, in ms, was closed because of the response, not because of an
 * idle timeout.
 */
const HANG_UP_MS = 25;
/** The longest rest that is required of a connection before it carries another request, in ms. */
const MAX_REST_MS = 1_000;
/** How long requests wait for the first connection that carries a second request, in ms. */
const TRIAL_MS = 25;

/** What a request does if there are idle connections: use one, dial a new one, or wait until one has rested. */
export type Reuse = 'use' | 'dial' | 'wait';

/**
 * Finds out whether the connections of one pod can be reused. If the pod closes them unannounced after each response, they are useless as
 * soon as a response has arrived. So one request tries a connection that has rested, and the others briefly wait for the result. If the pod
 * did close it, no request waits any longer, and each gets a new connection.
 *
 * The trial waits for the network, so it uses real time, even if a test controls all other clocks.
 */
export class ReuseTrial {
  readonly #clock: Clock;
  #keeps: Keeps = 'unknown';
  /** How long a connection must have been idle, in ms, while it is not known whether the pod keeps connections open. */
  #restMs = REST_MS;
  /** The first request on a reused connection to the pod, while the trial runs. */
  #request: SocketTaker | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether a connection to the pod has carried a second request, so that connections are reused immediately. */
  get isPassed(): boolean {
    return this.#keeps === 'yes';
  }

  /** Until when a new request may wait for a connection that has rested, a time of the trial's clock. */
  get deadlineMs(): number {
    return this.#clock.now() + TRIAL_MS;
  }

  /**
   * Decides what a request does while it is not known whether the pod keeps its connections open. @param idleMs How long the connection
   * that rests longest has been idle. @param isFull Whether no further connection may be opened.
   */
  decide(idleMs: number, untilMs: number, isFull: boolean): Reuse {
    if (this.#keeps === 'yes') return 'use';
    const isLate = this.#clock.now() >= untilMs;
    if (this.hasRested(idleMs) && this.mayTry(untilMs, isFull)) return 'use';
    return this.#keeps === 'no' || (isLate && !isFull) ? 'dial' : 'wait';
  }

  /** Whether the pod is unlikely to close a connection that was idle for this long, in ms. */
  hasRested(idleMs: number): boolean {
    return idleMs >= this.#restMs;
  }

  /** Whether a request may use a connection that has rested. If no further connection can be opened, the request does not wait for long. */
  mayTry(untilMs: number, isFull: boolean): boolean {
    if (this.#keeps !== 'unknown' || this.#request === undefined) return true;
    return isFull && this.#clock.now() >= untilMs;
  }

  /** Runs `again` after a moment. The timer keeps the process alive, because a request is waiting. */
  wait(again: () => void): void {
    this.#clock.timer(again, REST_MS).ref();
  }

  /** Notes that this request uses a connection that has rested; its result shows whether the pod keeps idle connections open. */
  tries(request: SocketTaker): void {
    if (this.#keeps !== 'unknown') return;
    this.#request = request;
    request.once('close', () => {
      if (this.#request === request) this.#request = undefined;
    });
  }

  /** Notes that a response arrived on a reused connection to the pod. */
  passed(): void {
    this.#keeps = 'yes';
  }

  /** Notes that a request was lost without a response on a reused connection. */
  lost(): void {
    if (this.#keeps === 'yes') this.#keeps = 'unknown';
    else this.#hangsUp(this.#restMs);
  }

  /** Notes that the pod closed a connection that had been idle for this long, in ms. */
  ended(idleMs: number): void {
    if (this.#keeps !== 'yes' && idleMs < HANG_UP_MS) this.#hangsUp(idleMs);
  }

  #hangsUp(afterMs: number): void {
    this.#keeps = 'no';
    this.#request = undefined;
    this.#restMs = Math.min(MAX_REST_MS, Math.max(LONG_REST_MS, this.#restMs, afterMs * REST_FACTOR));
  }
}
