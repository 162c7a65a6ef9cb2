import type { SharedTimer, SharedTimers, Timed } from '../runtime/shared-timers.js';
import type { Admission } from './admission.js';
import type { ServedCall } from './served-call.js';

/** For how long a request with an incomplete body counts against the limit, in ms. Bodies usually arrive together with their headers. */
const HOLD_MS = 200;

/**
 * Watches the body of a request that is being served. If the body does not arrive, the request stops counting against the limit; otherwise
 * a few senders that never finish would use up the whole limit.
 */
export class AwaitedBody implements Timed {
  readonly #admission: Admission;
  readonly #call: ServedCall;
  readonly #stalled: () => boolean;
  readonly #timer: SharedTimer;
  #isAway = false;

  /** @param stalled Called once if the request is still served after `HOLD_MS`. Returns whether its body is incomplete. */
  constructor(admission: Admission, call: ServedCall, timers: SharedTimers, stalled: () => boolean) {
    this.#admission = admission;
    this.#call = call;
    this.#stalled = stalled;
    this.#timer = timers.start(HOLD_MS, this);
    call.body = this;
  }

  timedOut(): void {
    if (this.#stalled()) this.#isAway = this.#admission.leaves(this.#call);
  }

  /** The body is complete, or the first message of a gRPC call has arrived. */
  arrived(): void {
    this.cancel();
    if (this.#isAway && !this.#call.isOver) this.#admission.returns(this.#call);
    this.#isAway = false;
  }

  cancel(): void {
    this.#timer.cancel();
  }
}
