import { errorMonitor } from 'node:events';
import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import {
  type Balancer,
  type Clock,
  type Endpoint,
  type LoadReport,
  type Outcome,
  outcomes,
  type Priority,
} from '../../index.js';
import { announcementOf, explainSilentEnd, outcomeOfAnswer, reportOf } from '../http/answer.js';
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
  loadReportHeader,
  type ReportAsking,
  type Timed,
} from '../kit/index.js';
import { outcomeOfAbort, outcomeOfBroken, refusedAttempt } from './outcome.js';
import type { PodAgent, SocketSeeker } from './pod-agent.js';

/** What the calls of one agent share. */
export interface CallOwner {
  readonly balancer: Balancer<PodAgent>;
  readonly clock: Clock;
  /** The origin of the agent's target, for messages. */
  readonly origin: string;
  /** Which pods the agent's requests ask for load reports. */
  readonly askForReports: AskForReports;
  /** A request started, or stopped, waiting for a pod. */
  waits(request: ClientRequest): void;
  served(request: ClientRequest): void;
  /** Whether the agent's balancer is closed: requests then stay on the pods they have. */
  readonly isClosing: boolean;
  /** Converts an error to the one that the request's caller gets. */
  errorOf(error: Error): Error;
}

/**
 * One request, from its start to the end of its lease. Until it has a socket it can move to another pod, as often as the retry budget
 * allows. From then on Node owns it, and it is only watched: our listeners must not change what happens if the caller has none.
 */
export class NodeHttpCall implements AttemptedCall<PodAgent>, SocketSeeker, Timed {
  readonly request: ClientRequest;
  /** The request's priority, set before the request begins. */
  priority: Priority | undefined = undefined;
  readonly #owner: CallOwner;
  readonly #attempts: Attempts<PodAgent>;
  /** What watches the request while it has no socket. */
  #pending: PendingRequest | undefined;
  /** Whether the request has its socket, has failed or was given up: it needs no socket any longer. */
  #settled = false;
  /** The request's deadline, if it has one. */
  #deadline: RequestDeadline | undefined;
  #isLate = false;
  #socket: Socket | undefined;
  /** The pod's load report; null until it is known. */
  #report: LoadReport | undefined | null = null;
  /** The endpoint that the request went to; kept after its lease was concluded. */
  #endpoint: Endpoint | undefined;
  #reportAsking: ReportAsking | undefined;
  /** Whether the request has our header that asks its pod for a load report. */
  #asksForReport = false;
  readonly #onResponse = (): void => this.#began();

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

  /** The deadline passed. Node reports it like any error of the request; a complete response is not affected. */
  timedOut(): void {
    const { request } = this;
    if (request.destroyed || responseOf(request)?.complete) return;
    this.#isLate = true;
    const { origin } = this.#owner;
    const { limitMs } = this.#deadline as RequestDeadline;
    const { method } = request;
    const error = deadlineError({ origin, method, limitMs, running: [this], tried: this.#attempts.tried });
    // Readers of the response, if there is one, get the error as well; both ways destroy the socket.
    (responseOf(request) ?? request).destroy(error);
  }

  /** The lease of the running attempt: where the request went. */
  get lease(): CallLease<PodAgent> | undefined {
    return this.#attempts.lease;
  }

  /** How far the request has come, for messages. */
  get stage(): 'waiting' | 'connecting' | 'sent' | 'answered' {
    const { lease } = this;
    if (lease === undefined) return 'waiting';
    if (!this.#settled) return 'connecting';
    return this.#isAnswered(lease) ? 'answered' : 'sent';
  }

  begin(): void {
    // A request that has to wait gets its pod when Node has built its headers.
    if (this.#owner.askForReports === 'always') this.#askForReport(true);
    if (!this.#attempts.begin()) this.#attempts.wait();
  }

  facts(): CallFacts {
    return { protocol: 'http', method: this.request.method, service: this.#owner.origin };
  }

  send(lease: CallLease<PodAgent>): void {
    this.#endpoint = lease.endpoint;
    this.#reportAsking = lease.handle.reportAsking;
    this.#askForReport(this.#reportAsking.next(this.#owner.askForReports));
    this.#attempts.noted(this.request.method);
    lease.handle.serve(this);
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

  served(): void {
    this.#settled = true;
    this.#pending?.release();
    // Whichever comes first: when a caller retries in its error handler, the pod must already be judged.
    // Each may fire more than once, which costs less than `once`.
    this.request.on(errorMonitor, (error: Error) => this.#over(error));
    this.request.on('close', () => this.#over(undefined));
    this.request.on('socket', (socket) => this.#listen(socket));
  }

  /**
   * Follows the request on its socket. It does not listen for `response`: Node would then no longer discard a response that nobody reads.
   */
  #listen(socket: Socket): void {
    this.#socket = socket;
    socket.once('data', this.#onResponse);
  }

  /** The response began. Its headers are usually there, because Node has read what just arrived. */
  #began(): void {
    const { lease } = this;
    lease?.progressed();
    const response = responseOf(this.request);
    if (response === undefined) return;
    const report = this.#reportOf(response);
    if (report === undefined) return;
    lease?.reported(report);
  }

  #reportOf({ headers }: IncomingMessage): LoadReport | undefined {
    if (this.#report !== null) return this.#report;
    const header = headers[loadReportHeader];
    const report = header === undefined ? undefined : reportOf(header);
    this.#report = report;
    if (this.#endpoint !== undefined && announcementOf((name) => headers[name], this.#endpoint) !== undefined) {
      this.#reportAsking?.announced();
    }
    if (report !== undefined) this.#reportAsking?.reported();
    return report;
  }

  /** Makes the request ask its pod for a load report, or not, unless its caller does, or Node has already built its headers. */
  #askForReport(asks: boolean): void {
    const { request } = this;
    if (asks === this.#asksForReport || request.headersSent) return;
    if (!asks) request.removeHeader(loadReportFormatHeader);
    else if (request.method === 'CONNECT' || request.hasHeader('upgrade')) return;
    else if (request.hasHeader(loadReportFormatHeader)) return;
    else request.setHeader(loadReportFormatHeader, 'TEXT');
    this.#asksForReport = asks;
  }

  #outcomeOf(response: IncomingMessage): Outcome {
    const { statusCode = 0, headers } = response;
    const report = this.#reportOf(response);
    // Nothing else of an ordinary response is read.
    if (statusCode < 400 && report === undefined) return outcomes.success;
    return outcomeOfAnswer(statusCode, (name) => headers[name], report, this.#endpoint);
  }

  refused(error: Error): void {
    this.#attempts.fail({ ...refusedAttempt(error), method: this.request.method });
  }

  /** Watches the request, because from here on the caller may give it up before there is a socket. */
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

  /** The request is over, however it ended. */
  #over(error: Error | undefined): void {
    const { lease } = this;
    if (lease === undefined) return;
    this.#deadline?.cancel();
    this.#socket?.off('data', this.#onResponse);
    const response = responseOf(this.request);
    const { socket } = this.request;
    if (response !== undefined) lease.progressed();
    if (response !== undefined && socket !== null && lease.handle.isDetached(socket)) {
      this.#detached(response, socket);
      return;
    }
    if (response !== undefined) this.#attempts.answeredWith(response.statusCode as number);
    if (response?.complete) {
      this.#attempts.end(this.#outcomeOf(response), { error });
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

  /** The connection belongs to the caller from now on; it counts as a call on the pod until it is closed. */
  #detached(response: IncomingMessage, socket: Socket): void {
    const attempts = this.#attempts;
    const outcome = this.#outcomeOf(response);
    attempts.answeredWith(response.statusCode as number);
    const lease = attempts.conclude(outcome) as CallLease<PodAgent>;
    // The upgraded connection may end hours from now, so the endpoint's success is confirmed at once.
    if (outcome.kind === 'success') lease.confirm();
    const closed = (): void => {
      lease.end(outcome, undefined, attempts.note);
      attempts.report(lease);
    };
    if (socket.destroyed) closed();
    else socket.once('close', closed);
  }

  #isAnswered(lease: CallLease<PodAgent>): boolean {
    return lease.answered || responseOf(this.request) !== undefined;
  }

  /** The outcome of a request when its caller gives up, or its deadline passes. */
  #outcomeOfAbort(lease: CallLease<PodAgent>): Outcome {
    const limitMs = this.#isLate ? this.#deadline?.limitMs : undefined;
    return outcomeOfAbort(this.#owner.clock.now() - lease.startedMs, limitMs, this.#isAnswered(lease));
  }
}
