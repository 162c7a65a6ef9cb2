import { AsyncResource } from 'node:async_hooks';
import { errorMonitor } from 'node:events';
import { type ClientRequest, maxHeaderSize } from 'node:http';
import type { Socket } from 'node:net';
import type { Lease, Outcome, Priority } from '../../index.js';
import { ConcurrentAttempts, type ConcurrentAttemptsOwner } from '../http/concurrent-attempts.js';
import { endWithoutSocket, PendingRequest } from '../http/node-agent.js';
import { deadlineError, type RequestDeadline } from '../http/request-deadline.js';
import { afterPendingIo, type SharedTimers, type Timed } from '../kit/index.js';
import { Call, type CallOwner } from './call.js';
import { Exchange, type ExchangeOwner } from './exchange.js';
import { outcomeOfAbort } from './outcome.js';
import type { PodAgent } from './pod-agent.js';
import {
  bytesOf,
  handOver,
  hangUpError,
  hideSocket,
  type RequestBytes,
  showSocket,
  takeCallbacks,
  withDeadline,
} from './wire.js';

/** What the calls of one agent share if requests may be sent twice. */
export interface RepeatedCallOwner extends CallOwner, ConcurrentAttemptsOwner<PodAgent> {
  /** The header that carries the deadline. */
  readonly deadlineHeader: string | undefined;
}

/**
 * A request that may be sent to several pods. Node sends a request once, on the socket it gets. But a request that is complete before it
 * has a socket is just bytes in memory. These bytes are sent here, on sockets of pods. The socket with the response for the caller is
 * then given to the request, which finds its response there and believes that it has sent itself.
 *
 * A request that is not complete by the time it could be sent (its body is still to come) is sent once, by Node, as usual.
 */
export class RepeatedCall implements ExchangeOwner, Timed {
  readonly attempts: ConcurrentAttempts<PodAgent, Exchange>;
  readonly key: string | undefined;
  readonly method: string;
  readonly maxHeadBytes: number;
  /** Set before it begins. */
  priority: Priority | undefined = undefined;
  readonly #owner: RepeatedCallOwner;
  readonly #request: ClientRequest;
  /** The caller's async context. */
  readonly #context = new AsyncResource('EVENKEEL_REQUEST');
  readonly #pending: PendingRequest;
  #deadline: RequestDeadline | undefined;
  #bytes: RequestBytes = [];
  /** The request has its socket, and is followed from there. */
  #sent: Call | undefined;
  /** The first socket it was sent on; its caller has been told about it. */
  #shown: Socket | undefined;
  #isWritten = false;
  /** It waits for the request to be complete. */
  #isHeld = false;
  #isOver = false;
  #isLate = false;

  constructor(owner: RepeatedCallOwner, request: ClientRequest, key: string | undefined) {
    this.#owner = owner;
    this.#request = request;
    this.key = key;
    this.method = request.method;
    this.maxHeadBytes = (request as { readonly maxHeaderSize?: number }).maxHeaderSize ?? maxHeaderSize;
    this.attempts = new ConcurrentAttempts(owner, {
      method: request.method,
      facts: () => ({ protocol: 'http', method: request.method, service: owner.origin }),
      key,
      attempt: (isHedge) => new Exchange(this, isHedge),
      beaten: () => new Error('another pod answered first'),
    });
    this.#pending = new PendingRequest(request, owner.clock, () => this.#abandoned());
  }

  /** Sets its deadline. Must be called before `begin`. */
  limit(deadline: RequestDeadline): void {
    this.#deadline = deadline;
  }

  begin(): void {
    // Its agent may be closed before it can start.
    this.#isHeld = true;
    this.#owner.waits(this.#request);
    // Most clients end a request without a body in the turn they create it, some in the next.
    process.nextTick(() => {
      if (!this.#beginIfComplete()) afterPendingIo(() => this.#beginIfComplete() || this.#beginOnce());
    });
  }

  timedOut(): void {
    if (this.#sent !== undefined) {
      this.#sent.timedOut();
      return;
    }
    if (this.#isOver) return;
    this.#isLate = true;
    const { origin } = this.#owner;
    const { limitMs } = this.#deadline as RequestDeadline;
    const { running, tried } = this.attempts;
    this.#request.destroy(deadlineError({ origin, method: this.method, limitMs, running, tried }));
  }

  // Used by its attempts.

  get balancer(): CallOwner['balancer'] {
    return this.#owner.balancer;
  }

  get movable(): boolean {
    return !this.#owner.isClosing;
  }

  get timers(): SharedTimers {
    return this.#owner.timers;
  }

  get deadlineMs(): number | undefined {
    return this.#deadline?.remainingMs;
  }

  waitBegan(): void {
    if (this.#isHeld) this.#isHeld = false;
    else this.#owner.waits(this.#request);
  }

  waitEnded(): void {
    this.#owner.served(this.#request);
  }

  send(exchange: Exchange, lease: Lease<PodAgent>): void {
    this.#context.runInAsyncScope(() => lease.handle.serve(exchange));
  }

  bytes(number: number): RequestBytes {
    const { deadlineHeader } = this.#owner;
    const remainingMs = this.#deadline?.remainingMs;
    const isFirst = !this.#isWritten;
    this.#isWritten = true;
    const bytes = isFirst ? takeCallbacks(this.#request, this.#bytes) : this.#bytes;
    if (number === 1 || deadlineHeader === undefined || remainingMs === undefined) return bytes;
    return withDeadline(bytes, deadlineHeader, remainingMs);
  }

  sentOn(socket: Socket, exchange: Exchange): void {
    if (this.#shown !== undefined) return;
    this.#shown = socket;
    this.#context.runInAsyncScope(() =>
      process.nextTick(() => {
        if (!this.#isOver && exchange.isOn(socket)) showSocket(this.#request, socket, exchange);
        else this.#shown = undefined;
      }),
    );
  }

  left(socket: Socket): void {
    hideSocket(this.#request, socket);
  }

  heardReport(): void {
    this.#owner.heardReport();
  }

  won(exchange: Exchange, socket: Socket): void {
    this.#isOver = true;
    const { timeoutMs } = this.#pending;
    this.#pending.release();
    const call = new Call(this.#owner, this.#request, this.key, exchange.attempts);
    if (this.#deadline !== undefined) call.limit(this.#deadline);
    this.#sent = call;
    call.served();
    this.#trace();
    const { reusedSocket } = exchange;
    const isShown = this.#shown === socket;
    this.#context.runInAsyncScope(() => handOver(this.#request, socket, { isShown, reusedSocket, timeoutMs }));
  }

  /** The trace ends with the request, after its last attempt has. */
  #trace(): void {
    const { attempts } = this;
    if (attempts.trace === undefined) return;
    this.#request.on(errorMonitor, (error) => attempts.ended(error));
    this.#request.on('close', () => attempts.ended());
  }

  outcomeOfAbort(lease: Lease<PodAgent>, answered: boolean): Outcome {
    const limitMs = this.#isLate ? this.#deadline?.limitMs : undefined;
    return outcomeOfAbort(this.#owner.clock.now() - lease.startedMs, limitMs, answered);
  }

  failed(exchange: Exchange, error: Error): void {
    if (this.attempts.failed(exchange) && !this.#isOver) this.#end(error);
  }

  /** False if it is not complete yet. */
  #beginIfComplete(): boolean {
    if (this.#isOver) return true;
    const bytes = bytesOf(this.#request);
    if (bytes === undefined) return false;
    this.#bytes = bytes;
    this.attempts.begin();
    this.#notHeld();
    return true;
  }

  /** It is sent by Node. */
  #beginOnce(): void {
    this.#isOver = true;
    this.#pending.release();
    const call = new Call(this.#owner, this.#request, this.key);
    call.priority = this.priority;
    if (this.#deadline !== undefined) call.limit(this.#deadline);
    this.#sent = call;
    call.begin();
    this.#notHeld();
  }

  #notHeld(): void {
    if (this.#isHeld) this.#owner.served(this.#request);
    this.#isHeld = false;
  }

  /** The caller gave up, or the deadline passed. */
  #abandoned(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.attempts.abort(new Error('its caller gave up'));
    // Node reports an `abort()` only if there was a socket.
    this.#end(this.#request.aborted && this.#shown !== undefined ? hangUpError() : undefined);
  }

  #end(error: Error | undefined): void {
    this.#isOver = true;
    this.attempts.stop();
    this.attempts.ended(error);
    this.#notHeld();
    this.#deadline?.cancel();
    this.#pending.release();
    this.#context.runInAsyncScope(() => endWithoutSocket(this.#request, error));
  }
}
