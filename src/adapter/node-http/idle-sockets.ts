import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../index.js';
import type { SocketTaker } from '../http/internals.js';

/** A socket is given up this long before the pod would close it, in ms, if the pod allows that much. */
const MARGIN_MS = 2_000;
/**
 * A socket is given up at least this long before the pod would close it, in ms. A pod that allows less gets one request per connection, as
 * with Node's own Agent.
 */
const MIN_MARGIN_MS = 1_000;

/**
 * How long a socket may be idle, in ms; 0 = it must not be used again.
 *
 * @param limitMs The limit of our own side.
 * @param hint The Keep-Alive header of the last response, such as `timeout=5`.
 */
export function keepAliveMs(limitMs: number, hint: unknown): number {
  const seconds = typeof hint === 'string' ? /(?:^|[\s,;])timeout=(\d{1,9})/i.exec(hint)?.[1] : undefined;
  if (seconds === undefined) return limitMs;
  const endsMs = Number(seconds) * 1_000;
  const marginMs = Math.max(MIN_MARGIN_MS, Math.min(MARGIN_MS, endsMs / 2));
  return Math.max(0, Math.min(limitMs, endsMs - marginMs));
}

/** The state of one socket; created when it is opened, so that a request allocates nothing. */
interface SocketState {
  isIdle: boolean;
  /** When the socket last became idle, and how long it may be idle, in ms. */
  sinceMs: number;
  limitMs: number;
  /** When the socket last became idle, in real time: see `network` of the constructor. */
  restsSinceMs: number;
}

/**
 * The idle sockets of one pod: how long each has been idle, and which may carry a request. One timer for all closes those that were idle for too long. One listener per
 * socket, for its whole life, closes those on which the pod sends data without a request.
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

  /** Starts to watch a socket that is in use. Call the result to stop, when the socket is given away. */
  watch(socket: Socket): () => void {
    const state: SocketState = { isIdle: false, sinceMs: 0, limitMs: 0, restsSinceMs: 0 };
    // Whatever a pod sends unasked (a 408 before it closes) must not reach the next request.
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

  /** The idle socket is in use again. */
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

  /** How long the last of these sockets has been idle, in ms: Node's Agent takes it next. Removes unusable ones first. */
  newestMs(sockets: Socket[] | undefined): number | undefined {
    for (let socket = sockets?.at(-1); socket !== undefined; socket = sockets?.at(-1)) {
      // The socket may be idle for too long already, because timers are late when the event loop is busy.
      const idleMs = this.idleMs(socket);
      if (idleMs !== undefined && isOpen(socket)) return idleMs;
      sockets?.pop();
      socket.destroy();
    }
    return undefined;
  }

  /** What a request does if there are these idle sockets. @param untilMs Until when it may wait. @param isFull No other may be opened. */
  decide(sockets: readonly Socket[], untilMs: number, isFull: boolean): Reuse {
    return this.trial.decide(this.restedMs(sockets[0] as Socket) ?? 0, untilMs, isFull);
  }

  /**
   * During the trial of a pod's idle connections: puts the socket a request may use where Node's Agent takes it next. Returns false if
   * there is none.
   */
  putForward(sockets: Socket[], request: SocketTaker, untilMs: number, isFull: boolean): boolean {
    const { trial } = this;
    if (!trial.mayTry(untilMs, isFull)) return false;
    for (let index = sockets.length - 1; index >= 0; index--) {
      const socket = sockets[index] as Socket;
      // Unusable ones are closed when it is their turn.
      if (!isOpen(socket) || !trial.hasRested(this.restedMs(socket) ?? 0)) continue;
      sockets.splice(index, 1);
      sockets.push(socket);
      trial.tries(request);
      return true;
    }
    return false;
  }

  /** The pod's agent stops: no socket becomes idle any longer. */
  stop(): void {
    this.#sweep?.cancel();
    // With the sweep in the past, no socket that becomes idle sets a timer.
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

/** Whether a pod's connections can be reused after a response, as far as is known. */
type Keeps = 'unknown' | 'yes' | 'no';

/** A connection has rested after being idle for this long, in ms: a pod that closes connections after responses has mostly done so. */
const REST_MS = 5;
/** If the pod did close a connection that had rested, the next ones have rested after at least this long, in ms. */
const LONG_REST_MS = 100;
/**
 * If the pod did close a connection that had rested, the next ones have rested after this many times the longest time that was not enough.
 */
const REST_FACTOR = 2;
/** A connection that was idle for at most this long was closed because of the response, not an idle timeout, in ms. */
const HANG_UP_MS = 25;
/** The longest time that a connection is required to rest before it carries another request, in ms. */
const MAX_REST_MS = 1_000;
/** How long requests wait for the first connection that carries a second request, in ms. */
const TRIAL_MS = 25;

/** What a request does if there are idle connections. */
export type Reuse = 'use' | 'dial' | 'wait';

/**
 * Whether the connections of one pod can be reused. If the pod closes them unannounced after each response, they are useless as soon as
 * a response has arrived. So one request tries, on a connection that has rested, and the others briefly wait for the result. If the
 * pod did close it, no request waits any longer, and each gets a new connection.
 *
 * This waits for the network, so it uses real time, even if a test controls all other clocks.
 */
export class ReuseTrial {
  readonly #clock: Clock;
  #keeps: Keeps = 'unknown';
  /** How long a connection must have been idle, in ms, while it is not known whether the pod keeps them. */
  #restMs = REST_MS;
  /** The first request on a reused connection to the pod. */
  #request: SocketTaker | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether a connection to the pod carried more than one request: from then on connections are reused immediately. */
  get isPassed(): boolean {
    return this.#keeps === 'yes';
  }

  /** Until when a new request may wait for a connection that has rested, as a time of the clock. */
  get deadlineMs(): number {
    return this.#clock.now() + TRIAL_MS;
  }

  /**
   * What a request does while it is not known whether the pod keeps its connections. @param idleMs How long the connection that rests
   * longest has been idle. @param isFull No other connection may be opened.
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

  /** Whether a request may use a connection that has rested. If no other can be opened it does not wait for long. */
  mayTry(untilMs: number, isFull: boolean): boolean {
    if (this.#keeps !== 'unknown' || this.#request === undefined) return true;
    return isFull && this.#clock.now() >= untilMs;
  }

  /** Runs `again` after a moment. The timer keeps the process alive, because a request is waiting. */
  wait(again: () => void): void {
    this.#clock.timer(again, REST_MS).ref();
  }

  /** Notes that this request uses a connection which has rested: how that goes shows what the pod does with idle connections. */
  tries(request: SocketTaker): void {
    if (this.#keeps !== 'unknown') return;
    this.#request = request;
    request.once('close', () => {
      if (this.#request === request) this.#request = undefined;
    });
  }

  /** A response arrived on a reused connection to the pod. */
  passed(): void {
    this.#keeps = 'yes';
  }

  /** A request died without a response on a reused connection. */
  lost(): void {
    if (this.#keeps === 'yes') this.#keeps = 'unknown';
    else this.#hangsUp(this.#restMs);
  }

  /** The pod closed a connection that had been idle for this long, in ms. */
  ended(idleMs: number): void {
    if (this.#keeps !== 'yes' && idleMs < HANG_UP_MS) this.#hangsUp(idleMs);
  }

  #hangsUp(afterMs: number): void {
    this.#keeps = 'no';
    this.#request = undefined;
    this.#restMs = Math.min(MAX_REST_MS, Math.max(LONG_REST_MS, this.#restMs, afterMs * REST_FACTOR));
  }
}
