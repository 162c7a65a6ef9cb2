import { type Dispatcher, errors, type Pool } from 'undici';
import { type Lease, outcomes, type Priority } from '../../index.js';
import { deadlineError, type RequestDeadline } from '../http/request-deadline.js';
import {
  type CallFacts,
  type CallTrace,
  isTraced,
  pickOther,
  type SharedTimer,
  type Timed,
  TriedEndpoints,
  traceOf,
} from '../kit/index.js';
import { type CallOwner, type HedgedRequest, UndiciCall } from './call.js';
import { type Abortable, Caller } from './caller.js';
import type { HandlerV2 } from './handler.js';

/**
 * A request of which another attempt begins beside a slow one (the option `hedge`). Each attempt is an `UndiciCall`, which may itself move
 * to another pod. The caller gets the response that starts first, and the other attempts are aborted.
 */
export class HedgedCall implements HedgedRequest, Abortable, Timed {
  readonly tried: TriedEndpoints<Pool> = new TriedEndpoints();
  made = 0;
  moves = 0;
  trace: CallTrace | undefined = undefined;
  readonly caller: Caller;
  abortReason: Error | undefined;
  /** The request's deadline and priority; both are set before the call begins. */
  deadline: RequestDeadline | undefined;
  priority: Priority | undefined;
  readonly #owner: CallOwner;
  readonly #options: Dispatcher.DispatchOptions;
  readonly #key: string | undefined;
  /** The attempts of the request that may still get a response. */
  #running: readonly UndiciCall[] = [];
  /** The attempt whose response the caller gets. */
  #winner: UndiciCall | undefined;
  #hedges = 0;
  #hedgeTimer: SharedTimer | undefined;
  /** Whether the caller has been notified of the request's end. */
  #isOver = false;

  constructor(owner: CallOwner, options: Dispatcher.DispatchOptions, key: string | undefined, handler: HandlerV2) {
    this.#owner = owner;
    this.#options = options;
    this.#key = key;
    this.caller = new Caller(handler, this);
  }

  /** Starts the request. Returns false when it has to wait for an endpoint. */
  begin(): boolean {
    try {
      this.caller.announce();
    } catch (error) {
      this.#finish(error as Error);
    }
    if (this.#isOver) return true;
    const { balancer } = this.#owner;
    balancer.retries.budget.deposit();
    this.#awaitHedge();
    this.trace = isTraced() ? traceOf(balancer, this) : undefined;
    return this.trace === undefined ? this.#attempt(false) : this.trace.start(() => this.#attempt(false));
  }

  facts(): CallFacts {
    return { protocol: 'http', method: this.#options.method, service: this.#owner.origin };
  }

  /** Gives the request up. Does nothing the second time, or after the request has ended. */
  abort(reason: Error = new errors.RequestAbortedError()): void {
    if (this.#isOver || this.abortReason !== undefined) return;
    this.abortReason = reason;
    this.#hedgeTimer?.cancel();
    const running = this.#running;
    for (const attempt of running) attempt.abort(reason);
    // Without an attempt to abort, the request ends here: the caller may abort from within `onRequestStart`.
    if (running.length === 0) this.#finish(reason);
  }

  /** The request's deadline has passed. */
  timedOut(): void {
    const { method } = this.#options;
    const { limitMs } = this.deadline as RequestDeadline;
    const running = this.#running;
    this.abort(deadlineError({ origin: this.#owner.origin, method, limitMs, running, tried: this.tried }));
  }

  // The attempts of this request call the methods that follow.

  hasOther(attempt: UndiciCall): boolean {
    return this.#running.some((other) => other !== attempt && other.lease !== undefined);
  }

  answered(attempt: UndiciCall): boolean {
    if (this.#isOver || this.abortReason !== undefined || this.#winner !== undefined) return false;
    this.#measure(attempt);
    return true;
  }

  won(attempt: UndiciCall): void {
    this.#winner = attempt;
    if (attempt.isHedge) this.#owner.balancer.retries.hedgeWon();
    this.#hedgeTimer?.cancel();
    const losers = this.#running.filter((other) => other !== attempt);
    this.#running = [attempt];
    for (const loser of losers) {
      // The aborted attempt would have taken at least this long. Without its time, the usual time to a response would shrink steadily.
      this.#measure(loser);
      loser.abort(new errors.RequestAbortedError('another pod answered first'));
    }
  }

  lost(attempt: UndiciCall): void {
    this.#running = this.#running.filter((other) => other !== attempt);
  }

  ended(): void {
    this.#isOver = true;
    this.trace?.end(undefined, undefined);
    this.deadline?.cancel();
  }

  failed(attempt: UndiciCall, error: Error): void {
    this.lost(attempt);
    const isLast = attempt === this.#winner || (this.#winner === undefined && this.#running.length === 0);
    if (!isLast) return;
    if (!this.#isOver) this.#finish(error);
    // The caller's handler threw this error when it was notified of the response's end.
    else if (this.#winner !== undefined) this.#deliver(error);
  }

  #finish(error: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.deadline?.cancel();
    this.#hedgeTimer?.cancel();
    this.trace?.end(undefined, error);
    this.#deliver(error);
  }

  #deliver(error: Error): void {
    try {
      this.caller.fail(error);
    } catch (thrown) {
      this.#owner.handlerThrew(thrown);
    }
  }

  /** Starts another attempt of the request, on `lease` if one is passed. */
  #attempt(isHedge: boolean, lease?: Lease<Pool>): boolean {
    const attempt = new UndiciCall(this.#owner, this.#options, this.#key, this, isHedge);
    attempt.priority = this.priority;
    attempt.deadline = this.deadline;
    this.#running = [...this.#running, attempt];
    return attempt.start(lease);
  }

  #awaitHedge(): void {
    const { hedging, timers } = this.#owner;
    const delayMs = hedging?.delayMs;
    if (hedging === undefined || delayMs === undefined || this.#hedges >= hedging.max) return;
    this.#hedgeTimer = timers.start(delayMs, { timedOut: () => this.#hedge() });
  }

  /**
   * No pod has responded in time: sends a hedge to another pod, if there is one and the retry budget allows it. Otherwise tries again after
   * another such delay.
   */
  #hedge(): void {
    const lease = this.#leaseForHedge();
    if (lease !== undefined) this.#hedges++;
    this.#awaitHedge();
    if (lease !== undefined) this.#attempt(true, lease);
  }

  #leaseForHedge(): Lease<Pool> | undefined {
    const { balancer } = this.#owner;
    const leases = this.#running.flatMap(({ lease }) => lease ?? []);
    // While an attempt waits for a pod, there is no pod for a second attempt.
    if (leases.length === 0 || !balancer.retries.allowsHedge(this.made - this.moves)) return undefined;
    for (const lease of leases) this.tried.add(lease, outcomes.cancelled);
    return pickOther(balancer, balancer.retries, this.tried, { key: this.#key });
  }

  #measure({ lease }: UndiciCall): void {
    if (lease !== undefined) this.#owner.hedging?.took(this.#owner.clock.now() - lease.startedMs);
  }
}
