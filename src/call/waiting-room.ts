import { EvenkeelError } from '../errors.js';
import type { PickTarget } from '../picker/picker.js';
import { type Priority, priorities } from '../propagation/priority.js';
import { offAbort, onAbort } from '../runtime/abort-listeners.js';
import type { Clock, Timer } from '../runtime/clock.js';
import { deadline } from '../runtime/deadline.js';
import type { Stopper } from '../runtime/stopper.js';
import type { CallLease } from './lease.js';
import { type InLine, WaitingLine } from './waiting-line.js';

/** What a waiting caller wants: which endpoint, and how long to wait. */
export interface WaitRequest {
  readonly key: string | undefined;
  readonly avoid: ReadonlySet<PickTarget> | undefined;
  /** Whether the caller is outside the limit. @defaultValue false */
  readonly unlimited?: boolean | undefined;
  readonly signal: AbortSignal | undefined;
  /** Ends the wait as `signal` does. */
  readonly stopper?: Stopper | undefined;
  readonly timeoutMs: number;
  /** The whole limit of which `timeoutMs` is the rest, in ms. @defaultValue `timeoutMs` */
  readonly limitMs?: number | undefined;
  /** The caller's priority. @defaultValue 'default' */
  readonly priority?: Priority | undefined;
  /** How much of the call's deadline is left, in ms. @defaultValue Infinity */
  readonly deadlineMs?: number | undefined;
  /** Whether the caller goes on waiting when `fail` rejects others. @defaultValue false */
  readonly waitForReady?: boolean | undefined;
}

interface Waiter<C, L> extends InLine<Waiter<C, L>> {
  readonly request: WaitRequest;
  readonly line: WaitingLine<Waiter<C, L>>;
  readonly sinceMs: number;
  /** When the deadline of the waiting caller's whole call is, in ms on the balancer's clock; Infinity = none. */
  readonly dueMs: number;
  readonly timer: Timer;
  readonly onAbort: () => void;
  readonly resolve: (lease: L) => void;
  readonly reject: (reason: unknown) => void;
  /** Whether the waiting caller has been served or has given up. */
  hasLeft: boolean;
}

/** What the waiting room needs from its balancer. */
export interface WaitingRoomOwner<C, L = CallLease<C>> {
  readonly clock: Clock;
  readonly maxWaiting: number;
  /** The limit on running calls, if there is one. Only callers that wait for it are shed. */
  readonly limit?:
    | {
        readonly hasRoom: boolean;
        readonly shedAfterMs: number;
        /** The shortest time in which a response comes, as far as known, in ms. */
        readonly leastMs: number;
      }
    | undefined;
  /** Whether this process's event loop was blocked at any time since `sinceMs`. If so, the waiting was not for endpoints. */
  stalledSince(sinceMs: number): boolean;
  tryPick(key: string | undefined, avoid: ReadonlySet<PickTarget> | undefined, unlimited: boolean): L | undefined;
  /** Creates the error for a caller that got no endpoint within `limitMs`. */
  timedOut(limitMs: number): EvenkeelError;
  /** Creates the error for a caller that is shed after waiting `waitedMs`. */
  overload(waitedMs: number): EvenkeelError;
  /** Creates the error for a caller whose deadline is too near: `leftMs` are left. */
  tooLate(leftMs: number): EvenkeelError;
}

/**
 * Each time something may be pickable, this many callers with keys may be tried without success at the head of the lines, and as many again
 * further back.
 */
const MAX_MISSES = 8;

/**
 * Holds callers until an endpoint can be picked: by priority, first come first served, limited in number and time. Each try picks anew, so
 * no caller is tied to an endpoint that was good when the caller arrived.
 *
 * If callers have waited for the limit without a break for `shedAfterMs`, they form a standing queue. Then the newest caller is served
 * first, because it most likely still wants a response, and the oldest are shed.
 * Sources: CoDel (Nichols, Jacobson, RFC 8289); adaptive LIFO with controlled delay (Maurer, "Fail at Scale", ACM Queue 2015).
 */
export class WaitingRoom<C, L = CallLease<C>> {
  // Only this class writes `size`, `shed` and `joinedMs`; others read these fields.
  /** How many callers wait. */
  size = 0;
  /** How many callers were shed since the balancer was created. */
  shed = 0;
  /** When the last caller began to wait, on the clock in ms; -Infinity before the first. */
  joinedMs: number = Number.NEGATIVE_INFINITY;
  readonly #owner: WaitingRoomOwner<C, L>;
  /** The waiting callers, one line per priority. */
  readonly #lines: readonly WaitingLine<Waiter<C, L>>[] = priorities.map(() => new WaitingLine());
  /** Callers outside the limit. They are served first, in order of arrival, and never shed. */
  readonly #unlimited = new WaitingLine<Waiter<C, L>>();
  /** The caller at which `#wakeFurther` will continue. */
  #further: Waiter<C, L> | undefined;
  #waking = false;
  /** Since when there have been callers that wait for the limit, without a break; undefined if there are none. */
  #limitedSinceMs: number | undefined;

  constructor(owner: WaitingRoomOwner<C, L>) {
    this.#owner = owner;
  }

  /**
   * Waits for an endpoint. Rejects with EVENKEEL_QUEUE_FULL at once, with EVENKEEL_OVERLOAD when the caller is shed, with EVENKEEL_TOO_LATE
   * when the caller waits for the limit and can no longer meet its deadline, with the owner's `timedOut` error after the timeout, or with
   * the signal's reason.
   */
  wait(request: WaitRequest): Promise<L> {
    const { clock, maxWaiting, limit } = this.#owner;
    const { signal, stopper, timeoutMs, priority = 'default', deadlineMs = Number.POSITIVE_INFINITY } = request;
    const isUnlimited = request.unlimited === true;
    const ranked = this.#lines[priorities.indexOf(priority)] as WaitingLine<Waiter<C, L>>;
    const line = isUnlimited ? this.#unlimited : ranked;
    const isLimited = !isUnlimited && limit?.hasRoom === false;
    /** In how many ms the caller can no longer meet its deadline. */
    const hopefulMs = isLimited ? deadlineMs - limit.leastMs : Number.POSITIVE_INFINITY;
    if (hopefulMs <= 0) {
      this.shed++;
      return Promise.reject(this.#owner.tooLate(deadlineMs));
    }
    if (isLimited) this.#limitedSinceMs ??= clock.now();
    if (this.size >= maxWaiting && !this.#makePlace(line)) {
      const message = `${maxWaiting} callers are already waiting for an endpoint (maxWaiting)`;
      return Promise.reject(new EvenkeelError('EVENKEEL_QUEUE_FULL', message));
    }
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (stopper?.isStopped) return Promise.reject(stopper.reason);
    return new Promise((resolve, reject) => {
      this.joinedMs = clock.now();
      const waiter: Waiter<C, L> = {
        request,
        line,
        sinceMs: this.joinedMs,
        dueMs: clock.now() + deadlineMs,
        timer: deadline(
          clock,
          () => {
            if (hopefulMs < timeoutMs) this.#giveUp(waiter);
            else if (this.#leave(waiter)) reject(this.#owner.timedOut(request.limitMs ?? timeoutMs));
          },
          Math.min(timeoutMs, hopefulMs),
        ),
        onAbort: () => {
          if (this.#leave(waiter)) reject(stopper?.isStopped ? stopper.reason : signal?.reason);
        },
        resolve,
        reject,
        hasLeft: false,
        ahead: undefined,
        behind: undefined,
      };
      waiter.timer.ref();
      onAbort(signal, waiter.onAbort);
      if (stopper !== undefined) stopper.onStop = waiter.onAbort;
      line.join(waiter);
      this.size++;
      this.#shedOld();
    });
  }

  /**
   * Serves waiting callers, as far as endpoints can be picked for them. Pickers and observers may call this from within a pick; it then
   * does nothing.
   */
  wake(): void {
    if (this.size > 0 && !this.#waking) this.#wake();
  }

  #wake(): void {
    this.#waking = true;
    try {
      this.#shedOld();
      this.#wakeUnlimited();
      this.#wakeInOrder();
    } finally {
      this.#waking = false;
    }
    // The limit has room, so callers that still wait do not wait for the limit.
    if (this.#owner.limit?.hasRoom === true) this.#limitedSinceMs = undefined;
  }

  #wakeUnlimited(): void {
    let misses = 0;
    let waiter = this.#unlimited.oldest;
    while (waiter !== undefined) {
      const next: Waiter<C, L> | undefined = waiter.behind;
      if (!this.#serve(waiter) && (waiter.request.key === undefined || ++misses === MAX_MISSES)) return;
      waiter = next;
    }
  }

  #wakeInOrder(): void {
    const newestFirst = this.#isStanding;
    let misses = 0;
    for (const line of this.#lines) {
      let waiter = newestFirst ? line.newest : line.oldest;
      while (waiter !== undefined) {
        const next: Waiter<C, L> | undefined = newestFirst ? waiter.ahead : waiter.behind;
        if (!this.#serve(waiter)) {
          // If nothing can be picked for a caller without a key, nothing can be picked for any other caller.
          if (waiter.request.key === undefined) return;
          // A caller with a key may wait for one busy endpoint, while others are free for callers behind it.
          if (++misses === MAX_MISSES) {
            this.#wakeFurther();
            return;
          }
        }
        waiter = next;
      }
    }
  }

  /**
   * Tries callers with keys that are further back. It runs at the end of every call, so it must not try each of a thousand keys every time:
   * it continues where it stopped last time.
   */
  #wakeFurther(): void {
    let misses = 0;
    for (let left = this.size; left > 0 && misses < MAX_MISSES; left--) {
      const waiter = this.#further ?? this.#firstFrom(0);
      if (waiter === undefined) return;
      this.#further = waiter.behind ?? this.#firstFrom(this.#lines.indexOf(waiter.line) + 1);
      if (!this.#serve(waiter)) misses++;
    }
  }

  /** The oldest caller of the line with this index, or of the next line that has any. */
  #firstFrom(line: number): Waiter<C, L> | undefined {
    return this.#lines.slice(line).find(({ oldest }) => oldest !== undefined)?.oldest;
  }

  #serve(waiter: Waiter<C, L>): boolean {
    if (waiter.hasLeft) return true;
    const { limit, clock } = this.#owner;
    // The limit has room, but responses take longer than when this caller arrived, so its deadline is too near now.
    if (limit?.hasRoom === true && waiter.dueMs - clock.now() <= limit.leastMs) {
      this.#giveUp(waiter);
      return true;
    }
    const { key, avoid, unlimited = false } = waiter.request;
    const lease = this.#owner.tryPick(key, avoid, unlimited);
    if (lease === undefined) return false;
    this.#leave(waiter);
    waiter.resolve(lease);
    return true;
  }

  /** In a standing queue, sheds callers that have waited for `shedAfterMs`. */
  #shedOld(): void {
    const { limit, clock } = this.#owner;
    if (limit === undefined || !this.#isStanding) return;
    const oldestMs = clock.now() - limit.shedAfterMs;
    for (const line of this.#lines) {
      while (line.oldest !== undefined && line.oldest.sinceMs <= oldestMs) this.#shedOne(line.oldest);
    }
  }

  /** Whether callers have waited for the limit without a break for `shedAfterMs`, in which the event loop was not blocked. */
  get #isStanding(): boolean {
    const { limit, clock } = this.#owner;
    const since = this.#limitedSinceMs;
    if (limit === undefined || since === undefined) return false;
    const oldestMs = clock.now() - limit.shedAfterMs;
    return since <= oldestMs && !this.#owner.stalledSince(oldestMs);
  }

  /** Sheds the oldest caller of the lowest priority, so that a new caller can join `line`. Returns false if no caller ranks low enough. */
  #makePlace(line: WaitingLine<Waiter<C, L>>): boolean {
    if (this.#limitedSinceMs === undefined) return false;
    // Callers of a lower priority may be shed, and in a standing queue those of the same priority. A new caller outside the limit takes the
    // place of any but the highest priority.
    const rank = line === this.#unlimited ? 0 : this.#lines.indexOf(line);
    const isSameRankShed = line !== this.#unlimited && this.#isStanding;
    const lower = this.#lines.slice(isSameRankShed ? rank : rank + 1);
    const oldest = lower.findLast((other) => other.oldest !== undefined)?.oldest;
    if (oldest === undefined) return false;
    this.#shedOne(oldest);
    return true;
  }

  #shedOne(waiter: Waiter<C, L>): void {
    this.#leave(waiter);
    this.shed++;
    waiter.reject(this.#owner.overload(this.#owner.clock.now() - waiter.sinceMs));
  }

  /** Rejects a caller that can no longer meet its deadline with EVENKEEL_TOO_LATE. */
  #giveUp(waiter: Waiter<C, L>): void {
    if (!this.#leave(waiter)) return;
    this.shed++;
    waiter.reject(this.#owner.tooLate(waiter.dueMs - this.#owner.clock.now()));
  }

  /**
   * Rejects the callers that wait, because no endpoint could take them now, but for those with `waitForReady`.
   *
   * @param untilMs Only those that have waited since then, on the clock in ms. @defaultValue all
   */
  fail(error: EvenkeelError, untilMs: number = Number.POSITIVE_INFINITY): void {
    this.#reject(error, untilMs, false);
  }

  /** Rejects all callers that wait, because nothing will ever be picked again. */
  close(error: EvenkeelError): void {
    this.#reject(error, Number.POSITIVE_INFINITY, true);
  }

  #reject(error: EvenkeelError, untilMs: number, all: boolean): void {
    for (const line of [this.#unlimited, ...this.#lines]) {
      let waiter = line.oldest;
      while (waiter !== undefined && waiter.sinceMs <= untilMs) {
        const next: Waiter<C, L> | undefined = waiter.behind;
        if (all || waiter.request.waitForReady !== true) {
          this.#leave(waiter);
          waiter.reject(error);
        }
        waiter = next;
      }
    }
  }

  #leave(waiter: Waiter<C, L>): boolean {
    waiter.timer.cancel();
    const { signal, stopper } = waiter.request;
    offAbort(signal, waiter.onAbort);
    if (stopper !== undefined) stopper.onStop = undefined;
    if (waiter.hasLeft) return false;
    waiter.hasLeft = true;
    if (this.#further === waiter) this.#further = waiter.behind;
    waiter.line.leave(waiter);
    this.size--;
    if (this.size === 0) this.#limitedSinceMs = undefined;
    return true;
  }
}
