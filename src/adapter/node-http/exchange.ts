import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { type Balancer, type Lease, type Outcome, outcomes, type Priority } from '../../index.js';
import { DISCARDED_BYTES, DISCARDED_MS, explainSilentEnd, outcomeOfAnswer, reportOf } from '../http/answer.js';
import type { Answer, ConcurrentAttempt, ConcurrentAttempts } from '../http/concurrent-attempts.js';
import type { SocketTaker } from '../http/node-agent.js';
import { type AttemptedCall, Attempts, loadReportHeader, type SharedTimer, type SharedTimers } from '../kit/index.js';
import { outcomeOfBroken, refusedAttempt } from './outcome.js';
import type { PodAgent, SocketSeeker } from './pod-agent.js';
import {
  bytesLeft,
  giveBack,
  hangUpError,
  type RequestBytes,
  type ResponseHead,
  responseHead,
  writeBytes,
} from './wire.js';

/** The request an attempt belongs to. */
export interface ExchangeOwner {
  readonly balancer: Balancer<PodAgent>;
  readonly attempts: ConcurrentAttempts<PodAgent, Exchange>;
  readonly key: string | undefined;
  readonly method: string;
  readonly movable: boolean;
  readonly timers: SharedTimers;
  /** Longest head to parse, in bytes. */
  readonly maxHeadBytes: number;
  readonly priority: Priority | undefined;
  /** What is left of its time, in ms. */
  readonly deadlineMs: number | undefined;
  waitBegan(): void;
  waitEnded(): void;
  /** What to send, in the async context of the caller. */
  send(exchange: Exchange, lease: Lease<PodAgent>): void;
  bytes(number: number): RequestBytes;
  /** The attempt now uses this socket; and the socket it no longer uses. */
  sentOn(socket: Socket, exchange: Exchange): void;
  left(socket: Socket): void;
  heardReport(): void;
  /** The caller gets this response; `socket` still has all its bytes. */
  won(exchange: Exchange, socket: Socket): void;
  /** The outcome of an attempt ended by its caller or its deadline. */
  outcomeOfAbort(lease: Lease<PodAgent>, answered: boolean): Outcome;
  failed(exchange: Exchange, error: Error): void;
}

/**
 * One attempt of a request that may be sent twice: writes its bytes to a pod's socket and reads the head of the response. Then either
 * the caller's request gets the socket with everything that was read, or the response is discarded.
 */
export class Exchange implements ConcurrentAttempt<PodAgent>, AttemptedCall<PodAgent>, SocketSeeker, SocketTaker {
  readonly isHedge: boolean;
  readonly attempts: Attempts<PodAgent>;
  reusedSocket = false;
  readonly #of: ExchangeOwner;
  #socket: Socket | undefined;
  /** The bytes received. */
  #read: Buffer | undefined;
  /** The head of a response being discarded; undefined while it may be the caller's. */
  #discarded: ResponseHead | undefined;
  #verdict: Outcome = outcomes.success;
  #discarding: SharedTimer | undefined;
  /** It no longer needs a socket. */
  #isOver = false;
  #closed: (() => void) | undefined;
  readonly #onData = (chunk: Buffer): void => this.#arrived(chunk);
  readonly #onEnd = (): void => this.#lost(undefined);
  readonly #onError = (error: Error): void => this.#lost(error);

  constructor(of: ExchangeOwner, isHedge: boolean) {
    this.#of = of;
    this.isHedge = isHedge;
    this.attempts = new Attempts(of.balancer, this, of.key, { tally: of.attempts, isHedge });
  }

  get lease(): Lease<PodAgent> | undefined {
    return this.attempts.lease;
  }

  get stage(): 'waiting' | 'connecting' | 'sent' | 'answered' {
    if (this.lease === undefined) return 'waiting';
    if (this.#socket === undefined) return 'connecting';
    return this.#read === undefined ? 'sent' : 'answered';
  }

  isOn(socket: Socket): boolean {
    return this.#socket === socket;
  }

  start(lease?: Lease<PodAgent>): boolean {
    if (this.attempts.begin(lease)) return true;
    this.attempts.wait();
    return false;
  }

  abort(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.attempts.stop();
    const { lease } = this;
    this.#release()?.destroy();
    if (lease !== undefined) this.attempts.end(this.#of.outcomeOfAbort(lease, this.#read !== undefined));
  }

  // What a call is asked.

  get priority(): Priority | undefined {
    return this.#of.priority;
  }

  get deadlineMs(): number | undefined {
    return this.#of.deadlineMs;
  }

  waitBegan(): void {
    this.#of.waitBegan();
  }

  waitEnded(): void {
    this.#of.waitEnded();
  }

  send(lease: Lease<PodAgent>): void {
    this.#read = undefined;
    this.reusedSocket = false;
    this.attempts.noted(this.#of.method);
    this.#of.send(this, lease);
  }

  fail(error: unknown): void {
    this.#isOver = true;
    this.#of.failed(this, error as Error);
  }

  // What a pod's agent asks, and what it gives a socket to.

  get request(): SocketTaker {
    return this;
  }

  get wanted(): boolean {
    return !this.#isOver;
  }

  get movable(): boolean {
    return this.#of.movable;
  }

  get podLeft(): boolean {
    return this.lease?.subchannel.state === 'draining';
  }

  served(): void {}

  refused(error: Error): void {
    if (!this.#isOver) this.attempts.fail({ ...refusedAttempt(error), ...this.#repeatable });
  }

  once(_event: 'close', closed: () => void): void {
    this.#closed = closed;
  }

  onSocket(socket: Socket | null | undefined, error?: Error | null): void {
    if (error != null || socket == null) {
      this.refused(error ?? hangUpError());
      return;
    }
    if (this.#isOver) {
      socket.destroy();
      return;
    }
    this.#socket = socket;
    socket.on('data', this.#onData).on('end', this.#onEnd).on('error', this.#onError).on('close', this.#onEnd);
    socket.resume();
    this.#of.sentOn(socket, this);
    writeBytes(socket, this.#of.bytes(this.attempts.number));
  }

  #arrived(chunk: Buffer): void {
    if (this.#read === undefined) this.lease?.progressed();
    const read = this.#read === undefined ? chunk : Buffer.concat([this.#read, chunk]);
    this.#read = read;
    if (this.#discarded !== undefined) {
      this.#discard(this.#discarded, read);
      return;
    }
    const head = responseHead(read, this.#of.method);
    if (head === undefined && read.length < this.#of.maxHeadBytes) return;
    // A head that is unreadable, or announces more to come, is left to Node's parser and the caller.
    const answer = head != null && head.status >= 200 ? this.#judged(head) : plainAnswer;
    if (!this.#of.attempts.takes(this, answer)) {
      if (head == null) this.#cut();
      else this.#discard(head, read);
      return;
    }
    const socket = this.#release() as Socket;
    socket.pause();
    socket.unshift(read);
    this.#isOver = true;
    this.#of.won(this, socket);
  }

  #judged({ status, headers }: ResponseHead): Answer {
    const header = (name: string): unknown => headers[name];
    this.attempts.answeredWith(status);
    const report = reportOf(header(loadReportHeader));
    if (report !== undefined) {
      this.#of.heardReport();
      this.lease?.reported(report);
    }
    const verdict = outcomeOfAnswer(status, header, report, this.lease?.endpoint);
    this.#verdict = verdict;
    return { status, header, verdict };
  }

  /** Reads the rest if it is short, to keep the connection; cuts it if it is long or slow. */
  #discard(head: ResponseHead, read: Buffer): void {
    const left = head.keepsAlive ? bytesLeft(head, read) : Number.POSITIVE_INFINITY;
    if (left === 0 && this.#socket?.writableLength === 0) {
      const socket = this.#release() as Socket;
      this.#of.left(socket);
      giveBack(socket, this, head.headers);
      this.#concluded();
    } else if (left > 0 && left + read.length - head.end <= DISCARDED_BYTES) {
      this.#discarded = head;
      this.#discarding ??= this.#of.timers.start(DISCARDED_MS, { timedOut: () => this.#cut() });
      // More bytes than announced, or an incompletely sent request: the connection is unusable.
    } else this.#cut();
  }

  #cut(): void {
    const socket = this.#release();
    if (socket !== undefined) {
      this.#of.left(socket);
      socket.destroy();
    }
    this.#concluded();
  }

  #concluded(): void {
    this.#isOver = true;
    this.attempts.end(this.#verdict, { retrying: true });
  }

  /** The connection ended or broke. */
  #lost(error: Error | undefined): void {
    const socket = this.#socket;
    const { lease } = this;
    if (socket === undefined || lease === undefined) return;
    if (this.#discarded !== undefined) {
      // The rest of the response says no more about the pod than its head did.
      this.#cut();
      return;
    }
    this.#release();
    this.#of.left(socket);
    const answered = this.#read !== undefined;
    const told = error ?? hangUpError();
    const outcome = outcomeOfBroken({ error, endedByPod: socket.readableEnded, cut: lease.handle.isCut });
    socket.destroy();
    if (outcome.cause === 'reset') {
      if (!(socket instanceof TLSSocket)) explainSilentEnd(told, lease.endpoint, socket.bytesRead);
      lease.handle.lost(told, !answered && this.reusedSocket);
    }
    this.attempts.fail({ outcome, error: told, answered, ...this.#repeatable });
  }

  get #repeatable(): { readonly repeatable: boolean; readonly idempotent: true; readonly method: string } {
    return { repeatable: this.#of.attempts.isAlone(this), idempotent: true, method: this.#of.method };
  }

  /** Releases the socket. */
  #release(): Socket | undefined {
    const socket = this.#socket;
    this.#socket = undefined;
    this.#discarding?.cancel();
    this.#closed?.();
    this.#closed = undefined;
    socket?.off('data', this.#onData).off('end', this.#onEnd).off('error', this.#onError).off('close', this.#onEnd);
    return socket;
  }
}

/** Of a response that is not looked at. */
const plainAnswer: Answer = { status: 200, header: () => undefined, verdict: outcomes.success };
