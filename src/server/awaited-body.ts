import type { SharedTimer, SharedTimers, Timed } from '../runtime/shared-timers.js';
import type { Admission } from './admission.js';
import type { ServedCall } from './served-call.js';

/** How long a request holds its place within the limit while its body is incomplete, in ms. Bodies usually come with their headers. */
const HOLD_MS = 200;

/**
 * The body of a request that is being served. While it does not come, the request gives its place back: a few senders that never
 * finish would otherwise take all places of a limit.
 */
export class AwaitedBody implements Timed {
  readonly #admission: Admission;
  readonly #call: ServedCall;
  readonly #stalled: () => boolean;
  readonly #timer: SharedTimer;
  #isAway = false;

  /** @param stalled Called once, if the request is still being served after `HOLD_MS`, with whether the body is incomplete. */
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

  /** The body is complete, or the first message of a gRPC call is there. */
  arrived(): void {
    this.cancel();
    if (this.#isAway && !this.#call.isOver) this.#admission.returns(this.#call);
    this.#isAway = false;
  }

  cancel(): void {
    this.#timer.cancel();
  }
}
