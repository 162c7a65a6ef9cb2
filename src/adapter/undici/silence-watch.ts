import type { Clock, Timer } from '../../index.js';

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
