import { errorMonitor } from 'node:events';
import type { ClientRequest, IncomingMessage } from 'node:http';
import { TLSSocket } from 'node:tls';
import { type Balancer, type Clock, type Lease, type Outcome, outcomes } from '../../index.js';
import { outcomeOfAnswer } from '../http/answer.js';
import { deadlineError } from '../http/deadline-error.js';
import { isDialError } from '../http/dial.js';
import { explainSilentEnd } from '../http/silent-end.js';
import {
  loadReportHeader,
  notify,
  observes,
  outcomeAtDeadline,
  type SharedTimer,
  type Timed,
  TriedEndpoints,
} from '../kit/index.js';
import { endWithoutSocket, responseOf } from './node-agent.js';
import { outcomeOfBroken } from './outcome.js';
import { PendingRequest } from './pending-request.js';
import type { PodAgent, SocketSeeker } from './pod-agent.js';

/** What the calls of one agent share. */
export interface CallOwner {
  readonly balancer: Balancer<PodAgent>;
  readonly clock: Clock;
  /** The target, for messages. */
  readonly origin: string;
  /** A request waits for a pod; a request waits no more. */
  waits(request: ClientRequest): void;
  served(request: ClientRequest): void;
  /** The balancer is closed: what has a pod stays there. */
  readonly isClosing: boolean;
}

/**
 * One request of a caller, from its start to the end of its lease. Until it has a socket it can go to another pod, as
 * often as the retry budget pays for it; from then on it is Node's, and only watched: no listener of ours changes what
 * happens when the caller has none.
 */
export class Call implements SocketSeeker, Timed {
  readonly request: ClientRequest;
  readonly #owner: CallOwner;
  readonly #key: string | undefined;
  #lease: Lease<PodAgent> | undefined;
  #attempt = 0;
  /** Where it was tried; undefined before the first retry. */
  #tried: TriedEndpoints<PodAgent> | undefined;
  /** While it has no socket. */
  #pending: PendingRequest | undefined;
  /** Ends the waiting for a pod. */
  #waiting: AbortController | undefined;
  /** It has its socket, or failed, or its caller gave it up: it wants none any more. */
  #settled = false;
  /** When it has to be over, if it has to. */
  #deadline: SharedTimer | undefined;
  #isLate = false;

  constructor(owner: CallOwner, request: ClientRequest, key: string | undefined) {
    this.#owner = owner;
    this.request = request;
    this.#key = key;
  }

  get wanted(): boolean {
    return !this.#settled;
  }

  get movable(): boolean {
    return !this.#owner.isClosing;
  }

  get podLeft(): boolean {
    return this.#lease?.subchannel.state === 'draining';
  }

  /** The request has until `deadline`; to be said before it begins. */
  limit(deadline: SharedTimer): void {
    this.#deadline = deadline;
  }

  /** Its deadline. Node tells the caller, as of any error of his request; of an answer that came in full he has no less. */
  timedOut(): void {
    const { request } = this;
    if (request.destroyed || responseOf(request)?.complete) return;
    this.#isLate = true;
    const { origin } = this.#owner;
    const { delayMs: limitMs } = this.#deadline as SharedTimer;
    const { method } = request;
    const error = deadlineError({ origin, method, limitMs, running: [this], tried: this.#tried });
    // The answer's readers hear of it as well, if there is one; both ways end in the socket.
    (responseOf(request) ?? request).destroy(error);
  }

  /** Where it went. */
  get lease(): Lease<PodAgent> | undefined {
    return this.#lease;
  }

  /** How far it has come, for people. */
  get stage(): 'waiting' | 'connecting' | 'sent' | 'answered' {
    if (this.#lease === undefined) return 'waiting';
    if (!this.#settled) return 'connecting';
    return this.#isAnswered(this.#lease) ? 'answered' : 'sent';
  }

  begin(): void {
    const { balancer } = this.#owner;
    balancer.retries.started();
    const lease = balancer.pick(this.#key === undefined ? undefined : { key: this.#key });
    if (lease === undefined) this.#wait(undefined);
    else this.#seek(lease);
  }

  served(): void {
    this.#settled = true;
    this.#pending?.release();
    // Whichever comes first: one who tries again when he hears of an error finds the pod judged already.
    // All may be told more than once: `once` costs more than that.
    this.request.on(errorMonitor, (error: Error) => this.#over(error));
    this.request.on('close', () => this.#over(undefined));
    this.request.on('information', () => this.#lease?.progressed());
  }

  refused(error: Error): void {
    const lease = this.#lease as Lease<PodAgent>;
    const dialled = isDialError(error);
    const outcome = dialled ? outcomes.notConnected : outcomes.notStarted;
    const { retries } = this.#owner.balancer;
    lease.end(outcome);
    const { method } = this.request;
    const ended = { outcome, idempotent: true, answered: false, tried: this.#attempt, method, error };
    // It was not tried on a pod that left: nothing the retry rules would count, or the budget pay for.
    if (!dialled) retries.moved();
    const retrying = !dialled || retries.allows(ended);
    this.#report(lease, outcome, retrying, error);
    if (retrying) this.#moveOn(lease, error);
    else this.#fail(error);
  }

  #seek(lease: Lease<PodAgent>): void {
    this.#lease = lease;
    this.#attempt++;
    lease.handle.serve(this);
    this.#hold();
  }

  #moveOn(failed: Lease<PodAgent>, error: Error): void {
    this.#lease = undefined;
    this.#tried ??= new TriedEndpoints();
    // Either way its pod is of use again only over another connection.
    this.#tried.add(failed, outcomes.notConnected);
    const { avoid } = this.#tried;
    const lease = this.#owner.balancer.pick({ key: this.#key, avoid });
    if (lease !== undefined && !avoid.has(lease.subchannel)) {
      this.#seek(lease);
      return;
    }
    lease?.end(outcomes.notStarted);
    this.#wait(error);
  }

  /** Waits for a pod; with `failure`, the error of the attempt before, for one to try again on. */
  #wait(failure: Error | undefined): void {
    const { balancer } = this.#owner;
    const giveUp = new AbortController();
    this.#waiting = giveUp;
    this.#owner.waits(this.request);
    this.#hold();
    const acquire = async (): Promise<Lease<PodAgent>> => {
      // A pod that failed just now is taken out within this turn; only then is it clear who is left.
      if (failure !== undefined) await undefined;
      return balancer.acquire({ key: this.#key, avoid: this.#tried?.avoid, signal: giveUp.signal });
    };
    acquire().then(
      (lease) => {
        this.#owner.served(this.request);
        this.#waiting = undefined;
        if (!this.#settled && this.#tried?.allows(lease) !== false) {
          this.#seek(lease);
          return;
        }
        lease.end(outcomes.notStarted);
        if (failure !== undefined) this.#fail(failure);
      },
      (error: Error) => {
        this.#owner.served(this.request);
        this.#fail(failure ?? error);
      },
    );
  }

  /** From here on the caller may give up before there is a socket. */
  #hold(): void {
    if (this.#settled) return;
    this.#pending ??= new PendingRequest(this.request, this.#owner.clock, () => this.#abandoned());
  }

  /** The caller destroyed the request before it had a socket. */
  #abandoned(): void {
    if (this.#settled) return;
    this.#settle(undefined);
    this.#waiting?.abort();
    const lease = this.#lease;
    if (lease === undefined) return;
    const outcome = this.#outcomeOfAbort(lease);
    lease.end(outcome);
    this.#report(lease, outcome, false, undefined);
  }

  #fail(error: Error): void {
    if (!this.#settled) this.#settle(error);
  }

  #settle(error: Error | undefined): void {
    this.#settled = true;
    this.#deadline?.cancel();
    this.#pending?.release();
    endWithoutSocket(this.request, error);
  }

  /** The request is over, in one way or another. */
  #over(error: Error | undefined): void {
    const lease = this.#lease;
    if (lease === undefined) return;
    this.#lease = undefined;
    this.#deadline?.cancel();
    const response = responseOf(this.request);
    const { socket } = this.request;
    if (response !== undefined) lease.progressed();
    if (response !== undefined && socket !== null && lease.handle.isDetached(socket)) {
      // The connection is the caller's own from now on; it stays a call on the pod until it is closed.
      const outcome = answerOutcome(response);
      const answeredMs = this.#owner.clock.now() - lease.startedMs;
      const over = (): void => this.#end(lease, outcome, undefined, answeredMs);
      if (socket.destroyed) over();
      else socket.once('close', over);
      return;
    }
    if (response?.complete) {
      this.#end(lease, answerOutcome(response), error);
      return;
    }
    if (this.#isLate) {
      this.#end(lease, this.#outcomeOfAbort(lease), error);
      return;
    }
    const endedByPod = socket?.readableEnded === true;
    const outcome = outcomeOfBroken({ error, endedByPod, cut: lease.handle.isCut });
    const isPlain = socket !== null && !(socket instanceof TLSSocket);
    // Before the caller hears of it: this is the error's monitor.
    if (error !== undefined && outcome.cause === 'reset' && isPlain) {
      explainSilentEnd(error, lease.endpoint, socket.bytesRead);
    }
    this.#end(lease, outcome, error);
    if (outcome.cause !== 'reset') return;
    const unanswered = response === undefined && this.request.reusedSocket;
    lease.handle.lost(error ?? new Error('the pod ended the connection'), unanswered);
  }

  #isAnswered(lease: Lease<PodAgent>): boolean {
    return lease.answered || responseOf(this.request) !== undefined;
  }

  /** What it says of the pod that its caller gave up, or his deadline. */
  #outcomeOfAbort(lease: Lease<PodAgent>): Outcome {
    if (!this.#isLate) return outcomes.cancelled;
    const { delayMs } = this.#deadline as SharedTimer;
    return outcomeAtDeadline(this.#owner.clock.now() - lease.startedMs, delayMs, this.#isAnswered(lease));
  }

  #end(lease: Lease<PodAgent>, outcome: Outcome, error: Error | undefined, latencyMs?: number): void {
    lease.end(outcome, latencyMs);
    this.#report(lease, outcome, false, error);
  }

  #report(lease: Lease<PodAgent>, outcome: Outcome, retrying: boolean, error: Error | undefined): void {
    const { observer } = this.#owner.balancer;
    if (!observes(observer, 'attemptEnded')) return;
    const { endpoint } = lease;
    notify(observer, 'attemptEnded', { endpoint, outcome, attempt: this.#attempt, retrying, error });
  }
}

function answerOutcome({ statusCode = 0, headers }: IncomingMessage): Outcome {
  return outcomeOfAnswer(statusCode, (name) => headers[name], headers[loadReportHeader]);
}
