import {
  type ClientHttp2Stream,
  type ClientSessionRequestOptions,
  constants,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
  type OutgoingHttpHeaders,
} from 'node:http2';
import { type Balancer, type Clock, type Outcome, outcomes, type Priority } from '../../index.js';
import { failedBy, takeOwnHeaders, withoutOwnHeaders } from '../http/answer.js';
import {
  type AskForReports,
  type AttemptedCall,
  Attempts,
  asError,
  type CallFacts,
  type CallLease,
  type FailedAttempt,
  loadReportFormatHeader,
  type Resend,
} from '../kit/index.js';
import type { CallStream, StreamOwner } from './call-stream.js';
import { compact } from './chunks.js';
import type { EndMessage } from './end-message.js';
import {
  endMessageOf,
  endsWithResponse,
  outcomeOfAbort,
  outcomeOfEndMessage,
  outcomeOfHead,
  outcomeOfReset,
  outcomeOfTrailers,
  timeoutOf,
} from './outcome.js';
import type { Http2Session } from './session.js';
import type { PodSessions } from './transport.js';

/** What all calls of one HTTP/2 client have in common. */
export interface CallOwner {
  readonly balancer: Balancer<PodSessions>;
  readonly origin: string;
  readonly clock: Clock;
  readonly askForReports: AskForReports;
  /** A call has begun to wait for an endpoint. */
  waits(): void;
  served(): void;
  /** Creates the stream that callers of this client get. */
  streamFor(owner: StreamOwner): CallStream;
  /** Converts an error into the form that callers of this client get. */
  errorFor(error: Error): Error;
}

type ResponseHeaders = IncomingHttpHeaders & IncomingHttpStatusHeader;

/**
 * The call that a stream of Node's carries an attempt of, until the call is done with that stream. A closed stream may stay in memory until
 * the next full garbage collection, with everything it refers to.
 */
const callOf: unique symbol = Symbol('call');

/** A stream of Node's that carries an attempt. */
type AttemptStream = ClientHttp2Stream & { [callOf]?: Http2Call | undefined };

/** One request over HTTP/2, through all its attempts. */
export class Http2Call implements AttemptedCall<PodSessions>, StreamOwner {
  readonly stream: CallStream;
  priority: Priority | undefined = undefined;
  /** Stops listening to the caller's abort signal; undefined if the request has no signal. */
  over: (() => void) | undefined = undefined;
  readonly #owner: CallOwner;
  readonly #headers: OutgoingHttpHeaders;
  readonly #options: ClientSessionRequestOptions;
  readonly #attempts: Attempts<PodSessions>;
  readonly #beganMs: number;
  #session: Http2Session | undefined;
  #native: ClientHttp2Stream | undefined;
  /** Node's error for the running attempt; undefined while there is none. */
  #failure: Error | undefined;
  #verdict: Outcome = outcomes.success;
  #endMessage: EndMessage | undefined;
  /** What the trailers of the response say about the pod; undefined if they say nothing. */
  #ofTrailers: Outcome | undefined;
  /** Whether the response to the running attempt has ended. */
  #isComplete = false;
  /** Whether it ended only because its connection was closed, or its stream reset. */
  #isCut = false;
  /** The error for an attempt whose stream was reset without an error of Node. The caller gets the reset code and not this error. */
  #reset: Error | undefined;

  /** @param headers A copy of the caller's headers, which this call may change. */
  constructor(
    owner: CallOwner,
    headers: OutgoingHttpHeaders,
    options: ClientSessionRequestOptions,
    key: string | undefined,
  ) {
    this.#owner = owner;
    this.#headers = headers;
    this.#options = options;
    this.#attempts = new Attempts(owner.balancer, this, key);
    this.#beganMs = owner.clock.now();
    this.stream = owner.streamFor(this);
  }

  begin(): void {
    if (!this.#attempts.begin()) this.#attempts.wait();
  }

  // The members that follow implement `AttemptedCall`.

  facts(): CallFacts {
    return { protocol: 'http', method: this.#method, service: this.#owner.origin };
  }

  get setHeader(): (name: string, value: string) => void {
    return (name, value) => {
      this.#headers[name.toLowerCase()] = value;
    };
  }

  get deadlineMs(): number | undefined {
    const limitMs = timeoutOf(this.#headers);
    return limitMs === undefined ? undefined : this.#beganMs + limitMs - this.#owner.clock.now();
  }

  waitBegan(): void {
    this.#owner.waits();
  }

  waitEnded(): void {
    this.#owner.served();
  }

  send(lease: CallLease<PodSessions>): void {
    const pod = lease.handle;
    const session = pod.next();
    if (session?.isOpen !== true) {
      this.#untried(session?.failure ?? pod.failure ?? sessionEnded());
      return;
    }
    const asks = pod.signals.asks(this.#owner.askForReports);
    const headers = asks ? { [loadReportFormatHeader]: 'TEXT', ...this.#headers } : this.#headers;
    let native: ClientHttp2Stream;
    try {
      native = session.request(headers, this.#options);
    } catch (error) {
      // While the session is open, an exception means that the caller passed headers that Node does not send. Node 20 also ends the
      // session because of an invalid name, which must not happen on another pod's session, too.
      if (session.isOpen || (error as NodeJS.ErrnoException).code === 'ERR_INVALID_HTTP_TOKEN') throw error;
      this.#untried(asError(error));
      return;
    }
    pod.callStarted(session);
    this.#session = session;
    this.#native = native;
    this.#failure = undefined;
    listen(native, this, this.#options.waitForTrailers === true);
    this.stream.attach(native);
  }

  fail(error: unknown): void {
    this.over?.();
    const rstCode = this.#native?.rstCode ?? this.stream.rstCode;
    this.stream.failed(rstCode, error === this.#reset ? undefined : this.#owner.errorFor(asError(error)));
  }

  // The members that follow implement `StreamOwner`.

  dropped(): void {
    this.over?.();
    this.#attempts.stop();
  }

  wanted(): void {
    this.#native?.resume();
  }

  get #method(): string {
    return String(this.#headers[':method'] ?? 'GET');
  }

  #untried(error: Error): void {
    this.#attempts.fail({ outcome: outcomes.notStarted, error, resend: 'free', idempotent: true, answered: false });
  }

  // The members that follow are for the listeners of Node's stream.

  received(native: AttemptStream, chunk: Buffer): void {
    this.#endMessage?.add(chunk);
    if (!this.stream.push(compact(chunk))) native.pause();
  }

  ended(native: AttemptStream): void {
    const { stream } = this;
    // Node also emits `end` for a stream that this side has closed.
    if (stream.isDropped) return;
    this.#isComplete = this.#attempts.lease?.answered === true;
    if (!this.#isComplete) return;
    // Node also emits `end` when the connection was closed, or the stream reset, in the middle of a response.
    this.#isCut = native.closed && native.rstCode !== constants.NGHTTP2_NO_ERROR;
    // Only once the caller has read the response, because until then a failed write would fail its call.
    if (!stream.writableEnded && endsWithResponse(this.#headers)) stream.once('end', () => native.close());
    stream.push(null);
  }

  gotTrailers(trailers: IncomingHttpHeaders, flags: number, raw: readonly string[]): void {
    const { lease } = this.#attempts;
    // They are read now, because evenkeel's own are not for the caller.
    if (lease !== undefined) this.#ofTrailers = outcomeOfTrailers(trailers, lease.handle.signals);
    this.stream.emit('trailers', trailers, flags, takeOwnHeaders(trailers) ? withoutOwnHeaders(raw) : raw);
  }

  gotHeaders(headers: ResponseHeaders, flags: number, raw: readonly string[]): void {
    if (headers[':status'] === constants.HTTP_STATUS_CONTINUE) this.stream.emit('continue');
    this.stream.emit('headers', headers, flags, raw);
  }

  gotError(error: Error): void {
    this.#failure ??= error;
  }

  responded(native: AttemptStream, headers: ResponseHeaders, flags: number, raw: readonly string[]): void {
    const attempts = this.#attempts;
    const lease = attempts.lease as CallLease<PodSessions>;
    const { signals } = lease.handle;
    const report = signals.hear(lease, (name) => headers[name]);
    const isConnect = this.#headers['connect-protocol-version'] !== undefined;
    const verdict = outcomeOfHead(headers, report, signals, isConnect);
    if (this.#moves(native, lease, verdict, headers)) return;
    this.#verdict = verdict;
    attempts.answeredWith(Number(headers[':status']));
    lease.progressed();
    this.#endMessage = endMessageOf(headers);
    this.stream.answered();
    this.stream.emit('response', headers, flags, takeOwnHeaders(headers) ? withoutOwnHeaders(raw) : raw);
  }

  /** Whether the request goes to another pod, and this response is given up. If so, it has moved. */
  #moves(
    native: AttemptStream,
    { retries }: CallLease<PodSessions>,
    verdict: Outcome,
    headers: ResponseHeaders,
  ): boolean {
    if (!this.stream.isRepeatable || this.stream.isDropped) return false;
    const method = this.#method;
    const idempotent = retries.methods.has(method);
    const header = (name: string): unknown => headers[name];
    const failed = failedBy({ verdict, status: Number(headers[':status']), header, method, idempotent }, retries);
    const other = failed && this.#attempts.other(failed);
    if (other === undefined) return false;
    native[callOf] = undefined;
    this.#native = undefined;
    this.stream.detach();
    native.close(constants.NGHTTP2_CANCEL); // what a client says that no longer wants the response
    this.#release();
    this.#attempts.move(failed as FailedAttempt, other);
    return true;
  }

  #release(): void {
    const session = this.#session;
    this.#session = undefined;
    if (session !== undefined) this.#attempts.lease?.handle.callEnded(session);
  }

  /** Handles the `close` of Node's stream for an attempt: the attempt succeeded, was abandoned by its caller, or failed. */
  closed(native: AttemptStream): void {
    native[callOf] = undefined;
    const attempts = this.#attempts;
    const lease = attempts.lease as CallLease<PodSessions>;
    const session = this.#session as Http2Session;
    const { rstCode } = native;
    const failure = this.#failure;
    this.#release();
    if (this.#isComplete && failure === undefined) {
      this.#succeed(rstCode);
      return;
    }
    this.stream.detach();
    if (this.stream.isDropped) {
      this.#abandoned(lease, rstCode, failure);
      return;
    }
    const isRefused = session.refused(native);
    const error = failure ?? new Error(`the stream was closed with code ${rstCode} before the response was complete`);
    this.#reset = failure === undefined ? error : undefined;
    const method = this.#method;
    attempts.fail({
      outcome: isRefused ? outcomes.notStarted : outcomeOfReset(rstCode, failure),
      error,
      idempotent: lease.retries.methods.has(method),
      answered: lease.answered,
      resend: this.stream.isRepeatable ? resendAfter(isRefused, session.hasLeft) : 'never',
      // The sessions that were open when the call began may all get a GOAWAY at once, which does not mean that the pod refuses calls.
      refused: isRefused && !(session.hasLeft && session.readyAtMs < this.#beganMs),
      method,
    });
  }

  #succeed(rstCode: number): void {
    this.over?.();
    const outcome = this.#isCut ? outcomeOfReset(rstCode, undefined) : this.#verdict;
    this.#attempts.end(this.#saidAtEnd ?? outcome);
    this.stream.finished(rstCode);
  }

  /** Returns what the end of the response (its trailers or end message) says about the pod; undefined if it says nothing. */
  get #saidAtEnd(): Outcome | undefined {
    return this.#ofTrailers ?? (this.#endMessage && outcomeOfEndMessage(this.#endMessage));
  }

  /**
   * The attempt ended because the caller had given up. Connect's client also gives up as soon as it has read an error in the response, so
   * the response may still say how the call ended.
   */
  #abandoned(lease: CallLease<PodSessions>, rstCode: number, failure: Error | undefined): void {
    const nowMs = this.#owner.clock.now();
    const reported = this.#saidAtEnd;
    const outcome =
      reported ?? outcomeOfAbort(this.#headers, nowMs - lease.startedMs, nowMs - this.#beganMs, lease.answered);
    this.#attempts.end(outcome, { error: failure });
    this.stream.failed(rstCode, failure);
  }
}

/** The error for a request on a session that has ended in order, with the code that Node's own has. */
function sessionEnded(): Error {
  return Object.assign(new Error('the session has ended'), { code: 'ERR_HTTP2_INVALID_SESSION' });
}

/** Makes the events of Node's stream reach `call`. All streams share the listeners, so that a call creates none. */
function listen(native: AttemptStream, call: Http2Call, wantsTrailers: boolean): void {
  native[callOf] = call;
  native.on('response', onResponse);
  native.on('data', onData);
  native.on('end', onEnd);
  native.on('trailers', onTrailers);
  native.on('headers', onHeaders);
  if (wantsTrailers) native.on('wantTrailers', onWantTrailers);
  native.on('error', onError);
  native.on('close', onClose);
}

function onResponse(this: AttemptStream, headers: ResponseHeaders, flags: number, raw: readonly string[]): void {
  this[callOf]?.responded(this, headers, flags, raw);
}

function onData(this: AttemptStream, chunk: Buffer): void {
  this[callOf]?.received(this, chunk);
}

function onEnd(this: AttemptStream): void {
  this[callOf]?.ended(this);
}

function onTrailers(this: AttemptStream, trailers: IncomingHttpHeaders, flags: number, raw: readonly string[]): void {
  this[callOf]?.gotTrailers(trailers, flags, raw);
}

function onHeaders(this: AttemptStream, headers: ResponseHeaders, flags: number, raw: readonly string[]): void {
  this[callOf]?.gotHeaders(headers, flags, raw);
}

function onWantTrailers(this: AttemptStream): void {
  this[callOf]?.stream.emit('wantTrailers');
}

function onError(this: AttemptStream, error: Error): void {
  this[callOf]?.gotError(error);
}

function onClose(this: AttemptStream): void {
  this[callOf]?.closed(this);
}

/** At what cost a call can be sent again whose stream the pod refused, or whose session it is ending (GOAWAY). */
function resendAfter(isRefused: boolean, hasLeft: boolean): Resend {
  if (isRefused && hasLeft) return 'free';
  // When a session ends, all its requests are cut at once, which is more than a retry budget pays for.
  return isRefused || hasLeft ? 'first-free' : 'paid';
}
