import type { Clock, Timer } from '../runtime/clock.js';
import { TokenBucket } from '../runtime/token-bucket.js';

/** An attempt to connect that waits at the gate for its turn. */
export interface WaitingDial {
  /** The attempt may begin to connect now. It must call `ended` of the gate once, and must not throw. */
  begin(): void;
}

/** An endpoint with at most this many failures in a row may just be starting, so it does not queue behind endpoints that are gone. */
const FEW_FAILURES = 3;
/**
 * How many attempts per second are made to endpoints that failed recently. Each endpoint has pauses of its own, but thousands of them (a
 * partition, or a Service whose pods are gone) would together cost a core and a storm of SYNs.
 */
const RETRIES_PER_SECOND = 50;

/**
 * Limits how many attempts to connect run at once; the others wait, first come first served. Attempts to endpoints that failed recently
 * wait behind all others and get at most half of the limit, because a hundred endpoints that hang until their timeout must not keep a new
 * pod waiting. A budget limits them too, and every other turn is for endpoints that failed only a few times.
 */
export class ConnectGate {
  readonly #limit: number;
  readonly #maxRunningRetries: number;
  readonly #clock: Clock;
  /** Pays for attempts to endpoints that failed recently. One that succeeds is refunded, so that endpoints that return are not delayed. */
  readonly #budget: TokenBucket = new TokenBucket(RETRIES_PER_SECOND, RETRIES_PER_SECOND);
  readonly #waiting = new Set<WaitingDial>();
  readonly #retries = new Set<WaitingDial>();
  readonly #longFailing = new Set<WaitingDial>();
  readonly #runningRetries = new Set<WaitingDial>();
  #running = 0;
  #admitting = false;
  /** Whether the last attempt to an endpoint that failed recently was to one that had failed often. */
  #wasLongFailing = false;
  /** Runs while an attempt waits until the budget can pay for it. */
  #timer: Timer | undefined;

  constructor(limit: number, clock: Clock) {
    this.#limit = limit;
    this.#maxRunningRetries = Math.max(1, Math.floor(limit / 2));
    this.#clock = clock;
  }

  /**
   * Calls `begin` as soon as the limit allows it, possibly synchronously. @param failures How many attempts in a row failed
   * on the endpoint recently.
   */
  enqueue(dial: WaitingDial, failures: number): void {
    const waiting = failures === 0 ? this.#waiting : failures <= FEW_FAILURES ? this.#retries : this.#longFailing;
    waiting.add(dial);
    if (!this.#admitting) this.#admit();
  }

  /** Takes a dial out of the queue. Returns false if its attempt has already begun. */
  cancel(dial: WaitingDial): boolean {
    const waited = this.#waiting.delete(dial) || this.#retries.delete(dial) || this.#longFailing.delete(dial);
    this.#stopIdleTimer();
    return waited;
  }

  /** An attempt that had begun is over. @param connected Whether the attempt got a connection. */
  ended(dial: WaitingDial, connected: boolean): void {
    this.#running--;
    if (this.#runningRetries.delete(dial) && connected) this.#budget.giveBack();
    this.#admitLater();
  }

  /**
   * Admits waiting attempts at the end of this turn. If they were admitted at once, calling off thousands of attempts would begin each of
   * them first.
   */
  #admitLater(): void {
    if (this.#admitting) return;
    this.#admitting = true;
    this.#clock.defer(() => {
      this.#admitting = false;
      this.#admit();
    });
  }

  #admit(): void {
    while (this.#running < this.#limit) {
      const [dial] = this.#waiting;
      if (dial !== undefined) {
        this.#waiting.delete(dial);
        this.#begin(dial);
      } else if (!this.#admitRetry()) return;
    }
  }

  /** Begins an attempt to an endpoint that failed recently. Returns false if none waits, or if limit or budget forbid it. */
  #admitRetry(): boolean {
    if (this.#retries.size + this.#longFailing.size === 0) return false;
    if (this.#runningRetries.size >= this.#maxRunningRetries) return false;
    if (!this.#budget.take(this.#clock.now())) {
      this.#timer ??= this.#clock.timer(() => {
        this.#timer = undefined;
        this.#admit();
      }, this.#budget.waitMs);
      return false;
    }
    this.#wasLongFailing = this.#retries.size === 0 || (!this.#wasLongFailing && this.#longFailing.size > 0);
    const waiting = this.#wasLongFailing ? this.#longFailing : this.#retries;
    const [retry] = waiting;
    waiting.delete(retry as WaitingDial);
    this.#stopIdleTimer();
    this.#runningRetries.add(retry as WaitingDial);
    this.#begin(retry as WaitingDial);
    return true;
  }

  #begin(dial: WaitingDial): void {
    this.#running++;
    dial.begin();
  }

  #stopIdleTimer(): void {
    if (this.#retries.size + this.#longFailing.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }
}
