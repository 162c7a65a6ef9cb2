import type { SharedTimer, SharedTimers, Timed } from '../runtime/shared-timers.js';
import type { Admission } from './admission.js';
import type { ServedCall } from './served-call.js';

/** For how long a request with an incomplete body counts against the limit, in ms. Bodies usually arrive together with their headers. */
const HOLD_MS = 200;

/**
 * Watches the body of a request that is being served. If the body does not arrive, the request stops counting against the limit; otherwise
 * a few senders that never finish would use up the whole limit. What arrives of the body later reaches the handler only when the limit has
 * room again; otherwise many such senders could put any number of handlers to work at once.
 */
export class AwaitedBody implements Timed {
  readonly #admission: Admission;
  readonly #call: ServedCall;
  readonly #stalled: () => boolean;
  readonly #timers: SharedTimers;
  #timer: SharedTimer;
  #isPaused = false;
  /** The parts of the body that arrived while the request does not count. */
  #held: (() => void)[] = [];
  #isComplete = false;

  /** @param stalled Called if the request is still served `HOLD_MS` after it counts. Returns whether its body is incomplete. */
  constructor(admission: Admission, call: ServedCall, timers: SharedTimers, stalled: () => boolean) {
    this.#admission = admission;
    this.#call = call;
    this.#stalled = stalled;
    this.#timers = timers;
    this.#timer = timers.start(HOLD_MS, this);
    call.body = this;
  }

  timedOut(): void {
    if (!this.#isComplete && this.#stalled()) this.#isPaused = this.#admission.pauses(this.#call);
  }

  /** A part of the body, or a message of a gRPC call, has arrived. Calls `pass` at once, or when the handler may go on. */
  deliver(isLast: boolean, pass: () => void): void {
    if (isLast) {
      this.#isComplete = true;
      this.#timer.cancel();
    }
    if (!this.#isPaused || this.#call.isOver) {
      pass();
      return;
    }
    this.#held.push(pass);
    if (this.#held.length === 1) this.#admission.resumes(this.#call, () => this.#goOn());
  }

  /** The request is over. What is held back of its body is passed on, so that the connection can be reused. */
  cancel(): void {
    this.#timer.cancel();
    this.#isPaused = false;
    for (const pass of this.#held.splice(0)) pass();
  }

  #goOn(): void {
    this.#isPaused = false;
    if (!this.#isComplete) this.#timer = this.#timers.start(HOLD_MS, this);
    for (const pass of this.#held.splice(0)) pass();
  }
}
