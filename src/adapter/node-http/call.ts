import { errorMonitor } from 'node:events';
import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { type Balancer, type Clock, type Outcome, outcomes, type Priority } from '../../index.js';
import { explainSilentEnd, outcomeOfAnswer, takeOwnHeaders, withoutOwnHeaders } from '../http/answer.js';
import { endWithoutSocket, responseOf } from '../http/internals.js';
import { PendingRequest } from '../http/pending-request.js';
import { deadlineError, type RequestDeadline } from '../http/request-deadline.js';
import {
  type AskForReports,
  type AttemptedCall,
  Attempts,
  type CallFacts,
  type CallLease,
  loadReportFormatHeader,
  type Timed,
} from '../kit/index.js';
import { outcomeOfAbort, outcomeOfBroken, refusedAttempt } from './outcome.js';
import type { PodAgent, SocketSeeker } from './pod-agent.js';

/** What all requests of one agent share. */
export interface CallOwner {
  readonly balancer: Balancer<PodAgent>;
  readonly clock: Clock;
  /** The origin of the agent's target, for error messages. */
  readonly origin: string;
  /** Which of the agent's requests ask their pod for a load report. */
  readonly askForReports: AskForReports;
  /** Called when a request starts to wait for a pod; `served` is called when it stops. */
  waits(request: ClientRequest): void;
  served(request: ClientRequest): void;
  /** Whether the agent's balancer is closed: its requests then stay with the pods that were picked. */
  readonly isClosing: boolean;
  /** Converts an error to the one that the request's caller gets. */
  errorOf(error: Error): Error;
}

/**
 * One request of node:http, from its start to the end of its lease. Until it has a socket it can move to another pod, as often as the retry
 * budget allows. From then on Node owns the request, which is only watched: evenkeel's listeners must not change what happens if the caller
 * has none.
 */
export class NodeHttpCall implements AttemptedCall<PodAgent>, SocketSeeker, Timed {
  readonly request: ClientRequest;
  /** The request's priority, set before the request begins. */
  priority: Priority | undefined = undefined;
  readonly #owner: CallOwner;
  readonly #attempts: Attempts<PodAgent>;
  /** Watches the request while it has no socket. */
  #pending: PendingRequest | undefined;
  /** Whether the request has its socket, has failed or was given up, so that it needs no socket any longer. */
  #settled = false;
  /** The request's deadline, if it has one. */
  #deadline: RequestDeadline | undefined;
  #isLate = false;
  /** What the head of the response says about the pod; undefined until the head was read. */
  #verdict: Outcome | undefined;
  /** Whether evenkeel has added the header that asks the pod for a load report. */
  #asksForReport = false;

  constructor(owner: CallOwner, request: ClientRequest, key: string | undefined) {
    this.#owner = owner;
    this.request = request;
    this.#attempts = new Attempts(owner.balancer, this, key);
  }

  /** How much time the request has left, in ms. */
  get deadlineMs(): number | undefined {
    return this.#deadline?.remainingMs;
  }

  get wanted(): boolean {
    return !this.#settled;
  }

  get movable(): boolean {
    return !this.#owner.isClosing;
  }

  get podLeft(): boolean {
    return this.lease?.subchannel.state === 'draining';
  }

  /** Sets the deadline of the request. Must be called before `begin`. */
  limit(deadline: RequestDeadline): void {
    this.#deadline = deadline;
  }

  /** The request's deadline has passed. Node reports that like any error of the request; a complete response is not affected. */
  timedOut(): void {
    const { request } = this;
    if (request.destroyed || responseOf(request)?.complete) return;
    this.#isLate = true;
    const { origin } = this.#owner;
    const { limitMs } = this.#deadline as RequestDeadline;
    const { method } = request;
    const error = deadlineError({ origin, method, limitMs, running: [this], tried: this.#attempts.tried });
    // If there is a response, its readers get the error as well; both ways destroy the socket.
    (responseOf(request) ?? request).destroy(error);
  }

  /** The lease of the running attempt, which says where the request went. */
  get lease(): CallLease<PodAgent> | undefined {
    return this.#attempts.lease;
  }

  /** How far the request has come, for error messages. */
  get stage(): 'waiting' | 'connecting' | 'sent' | 'answered' {
    const { lease } = this;
    if (lease === undefined) return 'waiting';
    if (!this.#settled) return 'connecting';
    return this.#isAnswered(lease) ? 'answered' : 'sent';
  }

  begin(): void {
    // Node has built the headers of a request that had to wait by the time it gets its pod, so the header is added now.
    if (this.#owner.askForReports === 'always') this.#askForReport(true);
    if (!this.#attempts.begin()) this.#attempts.wait();
  }

  facts(): CallFacts {
    return { protocol: 'http', method: this.request.method, service: this.#owner.origin };
  }

  send(lease: CallLease<PodAgent>): void {
    this.#askForReport(lease.handle.signals.asks(this.#owner.askForReports));
    lease.handle.findSocket(this);
    this.#hold();
  }

  fail(error: unknown): void {
    if (!this.#settled) this.#settle(error as Error);
  }

  waitBegan(): void {
    this.#owner.waits(this.request);
    this.#hold();
  }

  waitEnded(): void {
    this.#owner.served(this.request);
  }

  assigned(): void {
    this.#settled = true;
    this.#pending?.release();
    // Both events are listened to, because when a caller retries in its error handler, the pod must already be judged. Each listener may be
    // called more than once, which costs less than `once`.
    this.request.on(errorMonitor, (error: Error) => this.#ended(error));
    this.request.on('close', () => this.#ended(undefined));
    this.request.on('information', () => this.lease?.progressed());
    this.request.prependOnceListener('response', (response) => this.#responded(response));
  }

  /** The head of the response arrived. Runs before the caller's listeners. */
  #responded(response: IncomingMessage): void {
    const { lease } = this;
    lease?.progressed();
    if (lease !== undefined) this.#verdict = this.#hear(lease, response);
    if (takeOwnHeaders(response.headers)) {
      // Node makes `headersDistinct` of the raw headers, and expects all that arrived.
      takeOwnHeaders(response.headersDistinct);
      response.rawHeaders = withoutOwnHeaders(response.rawHeaders) as string[];
    }
    // Because of this listener, Node does not discard a response that nobody reads.
    if (this.request.listenerCount('response') === 0) response.resume();
  }

  #hear(lease: CallLease<PodAgent>, { statusCode = 0, headers }: IncomingMessage): Outcome {
    const { signals } = lease.handle;
    const header = (name: string): unknown => headers[name];
    const report = signals.hear(lease, header);
    // Nothing else of an ordinary response is read, to save time.
    if (statusCode < 400 && report === undefined) return outcomes.success;
    return outcomeOfAnswer(statusCode, header, report, signals);
  }

  /**
   * Adds or removes the header that asks the pod for a load report, unless the caller has set that header, or Node has already built the
   * head.
   */
  #askForReport(asks: boolean): void {
    const { request } = this;
    if (asks === this.#asksForReport || request.headersSent) return;
    if (!asks) request.removeHeader(loadReportFormatHeader);
    else if (request.method === 'CONNECT' || request.hasHeader('upgrade')) return;
    else if (request.hasHeader(loadReportFormatHeader)) return;
    else request.setHeader(loadReportFormatHeader, 'TEXT');
    this.#asksForReport = asks;
  }

  refused(error: Error): void {
    this.#attempts.fail({ ...refusedAttempt(error), method: this.request.method });
  }

  /** Watches the request, because from here on the caller may give it up before it has a socket. */
  #hold(): void {
    if (this.#settled) return;
    this.#pending ??= new PendingRequest(this.request, this.#owner.clock, () => this.#abandoned());
  }

  /** The caller destroyed the request before it had a socket. */
  #abandoned(): void {
    if (this.#settled) return;
    this.#settle(undefined);
    this.#attempts.stop();
    const { lease } = this;
    if (lease !== undefined) this.#attempts.end(this.#outcomeOfAbort(lease));
  }

  #settle(error: Error | undefined): void {
    this.#settled = true;
    this.#deadline?.cancel();
    this.#pending?.release();
    endWithoutSocket(this.request, error === undefined ? undefined : this.#owner.errorOf(error));
  }

  /** The request has ended, whether with an error or not. */
  #ended(error: Error | undefined): void {
    const { lease } = this;
    if (lease === undefined) return;
    this.#deadline?.cancel();
    const response = responseOf(this.request);
    const { socket } = this.request;
    if (response !== undefined) lease.progressed();
    if (response !== undefined && socket !== null && lease.handle.isDetached(socket)) {
      this.#detached(response, socket);
      return;
    }
    if (response !== undefined) this.#attempts.answeredWith(response.statusCode as number);
    if (response?.complete) {
      this.#attempts.end(this.#verdict ?? this.#hear(lease, response), { error });
      return;
    }
    if (this.#isLate) {
      this.#attempts.end(this.#outcomeOfAbort(lease), { error });
      return;
    }
    const endedByPod = socket?.readableEnded === true;
    const outcome = outcomeOfBroken({ error, endedByPod, cut: lease.handle.isCut });
    const isPlain = socket !== null && !(socket instanceof TLSSocket);
    // This runs before the caller's error handler, because it listens to the error monitor.
    if (error !== undefined && outcome.cause === 'reset' && isPlain) {
      explainSilentEnd(error, lease.endpoint, socket.bytesRead);
    }
    this.#attempts.end(outcome, { error });
    if (outcome.cause !== 'reset') return;
    const unanswered = response === undefined && this.request.reusedSocket;
    lease.handle.lost(error ?? new Error('the pod ended the connection'), unanswered);
  }

  /** The connection was upgraded and belongs to the caller from now on. It counts as a running call on its pod until it is closed. */
  #detached(response: IncomingMessage, socket: Socket): void {
    const attempts = this.#attempts;
    const outcome = this.#hear(this.lease as CallLease<PodAgent>, response);
    attempts.answeredWith(response.statusCode as number);
    const lease = attempts.conclude(outcome) as CallLease<PodAgent>;
    // The upgraded connection may end hours from now, so the endpoint's success is confirmed at once.
    if (outcome.kind === 'success') lease.confirm();
    const closed = (): void => {
      lease.end(outcome);
      attempts.report(lease);
    };
    if (socket.destroyed) closed();
    else socket.once('close', closed);
  }

  #isAnswered(lease: CallLease<PodAgent>): boolean {
    return lease.answered || responseOf(this.request) !== undefined;
  }

  /** The outcome of a request whose caller gave up, or whose deadline passed. */
  #outcomeOfAbort(lease: CallLease<PodAgent>): Outcome {
    const limitMs = this.#isLate ? this.#deadline?.limitMs : undefined;
    return outcomeOfAbort(this.#owner.clock.now() - lease.startedMs, limitMs, this.#isAnswered(lease));
  }
}
