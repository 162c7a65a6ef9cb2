import { loadReportFormatHeader, loadReportHeader, reportsHeader } from '../load/orca.js';
import { notBegunHeader } from '../propagation/not-begun.js';
import { optionError } from '../runtime/check.js';
import { untilDate } from '../runtime/wall-clock.js';
import { addressMarkOf, connectionMarkOf } from './address.js';
import type { Admission } from './admission.js';
import { AwaitedBody } from './awaited-body.js';
import type { HttpRefusal } from './http-refusal.js';
import type { GrpcRequest } from './options.js';
import type { LoadReporter } from './report/load-reporter.js';
import type { RequestCount } from './request-count.js';
import type { RequestRules } from './request-rules.js';
import { ServedCall, type ServedCallOwner, type ServedContext } from './served-call.js';

/** The gRPC trailer that carries a load report. */
const TRAILER = `${loadReportHeader}-bin`;
/** gRPC status codes that mean a failure of the server: UNKNOWN, INTERNAL, UNAVAILABLE, DATA_LOSS. */
const failures: ReadonlySet<number> = new Set([2, 13, 14, 15]);
const DEADLINE_EXCEEDED = 4;
const RESOURCE_EXHAUSTED = 8;
/** The gRPC trailer that says how long a client should wait before it tries again, in ms (gRFC A6). */
const PUSHBACK = 'grpc-retry-pushback-ms';

/**
 * The property of a request's metadata that holds evenkeel's call. The metadata is the only object that a handler's call shares with the
 * intercepted one.
 */
const servedBy: unique symbol = Symbol('evenkeel.servedBy');

/** The part of grpc-js that evenkeel uses. grpc-js is not imported, because its classes come with each call. */
interface Metadata {
  get(name: string): unknown[];
  set(name: string, value: string | Buffer): void;
  [servedBy]?: GrpcCall;
}

interface Listener {
  onReceiveMetadata(metadata: Metadata): void;
  onReceiveMessage(message: unknown): void;
  onReceiveHalfClose(): void;
  onCancel(): void;
}

interface Status {
  readonly code: number;
  readonly details?: string;
  readonly metadata?: Metadata | null;
}

interface ServerCall {
  start(listener: Listener): void;
  sendStatus(status: Status): void;
  getPeer(): string;
  getDeadline?(): Date | number;
  getConnectionInfo?(): { readonly localAddress?: string; readonly localPort?: number; readonly remotePort?: number };
}

interface Method {
  readonly path: string;
}

/** The parts of a pod that handle its gRPC calls. */
export interface GrpcCallsParts extends ServedCallOwner {
  readonly count: RequestCount;
  readonly rules: RequestRules;
  readonly reporter: LoadReporter | undefined;
  readonly admission: Admission | undefined;
  readonly context: ServedContext | undefined;
  readonly priorityHeader: string | undefined;
}

/**
 * Handles the calls of a grpc-js server: counts each call, and serves it now, makes it wait, or refuses it. Adds a load report to the
 * status if the call asked for one. Methods of grpc-js's call object are replaced in place, because later versions may add methods that a
 * wrapper would lack.
 */
export class GrpcCalls {
  readonly #parts: GrpcCallsParts;

  constructor(parts: GrpcCallsParts) {
    this.#parts = parts;
  }

  begin(method: Method, call: ServerCall): void {
    new GrpcCall(this.#parts, method, call).intercept();
  }
}

/** Finds evenkeel's call for the call that a handler received. Throws EVENKEEL_OPTION for a call of another server. */
export function grpcCallOf(handled: { readonly metadata: object }): ServedCall {
  const call = (handled.metadata as Partial<Metadata>)[servedBy];
  if (call === undefined) throw optionError('call', 'a call that this pod serves', handled);
  return call.served;
}

class GrpcCall {
  readonly #parts: GrpcCallsParts;
  readonly #method: Method;
  readonly #call: ServerCall;
  readonly #sendStatus: ServerCall['sendStatus'];
  /** The metadata of the request; undefined until it has arrived. */
  #requestMetadata: Metadata | undefined;
  #served: ServedCall | undefined;
  #body: AwaitedBody | undefined;
  /** Whether the first message has arrived, or the caller sends none. */
  #hasMessage = false;
  #isOpen = false;

  constructor(parts: GrpcCallsParts, method: Method, call: ServerCall) {
    this.#parts = parts;
    this.#method = method;
    this.#call = call;
    this.#sendStatus = call.sendStatus;
  }

  get served(): ServedCall {
    this.#served ??= new ServedCall(this.#parts, this.#deadlineMs, this.#priority);
    return this.#served;
  }

  intercept(): void {
    const call = this.#call;
    const { start } = call;
    call.start = (listener) => {
      this.#listen(listener);
      start.call(call, listener);
    };
    call.sendStatus = (status) => {
      const reportedStatus = this.#withReport(status);
      // grpc-js itself usually sends this status, at the call's deadline.
      if (status.code === DEADLINE_EXCEEDED) this.#served?.timedOut();
      this.#over(true, failures.has(status.code));
      this.#sendStatus.call(call, reportedStatus);
    };
  }

  #listen(listener: Listener): void {
    const { onReceiveMetadata, onCancel } = listener;
    listener.onReceiveMetadata = (metadata) => {
      if (this.#requestMetadata !== undefined) {
        onReceiveMetadata.call(listener, metadata);
        return;
      }
      this.#requestMetadata = metadata;
      metadata[servedBy] = this;
      this.#isOpen = true;
      this.#parts.count.began();
      this.#admit(() => onReceiveMetadata.call(listener, metadata));
    };
    // grpc-js calls `onCancel` at the end of every call, even if it was not cancelled.
    listener.onCancel = () => {
      this.#over(false, false);
      onCancel.call(listener);
    };
    this.#keepContext(listener);
    if (this.#parts.admission !== undefined) this.#awaitMessage(listener);
  }

  /**
   * Notices the first message of a call. grpc-js reads no message before the call is begun; from then on, the call stops counting against
   * the limit if its first message does not come.
   */
  #awaitMessage(listener: Listener): void {
    const { onReceiveMessage, onReceiveHalfClose } = listener;
    const deliver = (pass: () => void): void => {
      this.#hasMessage = true;
      if (this.#body === undefined) pass();
      else this.#body.deliver(true, pass);
    };
    listener.onReceiveMessage = (message) => deliver(() => onReceiveMessage.call(listener, message));
    listener.onReceiveHalfClose = () => deliver(() => onReceiveHalfClose.call(listener));
  }

  /** Runs the handler in the async context of its call, because grpc-js calls handlers when a message arrives, outside any context. */
  #keepContext(listener: Listener): void {
    const { context } = this.#parts;
    if (context === undefined) return;
    const { onReceiveMessage, onReceiveHalfClose } = listener;
    listener.onReceiveMessage = (message) => context.run(this.served, () => onReceiveMessage.call(listener, message));
    listener.onReceiveHalfClose = () => context.run(this.served, () => onReceiveHalfClose.call(listener));
  }

  #admit(serve: () => void): void {
    const { admission, rules, context } = this.#parts;
    const begin = context === undefined ? serve : () => context.run(this.served, serve);
    const { getDeadline } = this.#call;
    // Signal and timer are created only when needed, because most calls need neither.
    if (
      getDeadline !== undefined &&
      getDeadline.call(this.#call) !== Number.POSITIVE_INFINITY &&
      this.served.cameLate
    ) {
      this.#turnAway(rules.refusal(undefined));
    } else if (admission === undefined || rules.isUnlimited(this.#request)) begin();
    else {
      const waiting = admission.enter(this.served);
      const beginNow = (): void => {
        this.#body = new AwaitedBody(admission, this.served, this.#parts.timers, () => !this.#hasMessage);
        begin();
      };
      if (waiting === undefined) beginNow();
      else waiting.then(beginNow, (error: unknown) => this.#turnAway(rules.refusal(error)));
    }
  }

  /** Refuses the call before it begins. */
  #turnAway({ text, retryAfterMs }: HttpRefusal): void {
    if (!this.#isOpen) return;
    const trailers = new ((this.#requestMetadata as Metadata).constructor as new () => Metadata)();
    const mark = connectionMarkOf(this.#call.getConnectionInfo?.());
    if (mark !== undefined) trailers.set(notBegunHeader, mark);
    if (retryAfterMs !== undefined) trailers.set(PUSHBACK, String(Math.round(retryAfterMs)));
    const code = retryAfterMs === undefined ? DEADLINE_EXCEEDED : RESOURCE_EXHAUSTED;
    this.#call.sendStatus({ code, details: text, metadata: trailers });
  }

  #over(isAnswered: boolean, isFailure: boolean): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#parts.count.ended(isFailure);
    this.#served?.over(isAnswered, isFailure);
  }

  /** How much time the call has, in ms from now. grpc-js ends the call at that moment. */
  get #deadlineMs(): number | undefined {
    const date = this.#call.getDeadline?.();
    const remainingMs = date === undefined || date === Number.POSITIVE_INFINITY ? undefined : untilDate(Number(date));
    return this.#parts.rules.deadlineMs(remainingMs);
  }

  get #priority(): ServedCall['priority'] {
    const { rules, priorityHeader } = this.#parts;
    const [header] = priorityHeader === undefined ? [] : (this.#requestMetadata as Metadata).get(priorityHeader);
    return rules.priority(this.#request, header);
  }

  get #request(): GrpcRequest {
    const call = this.#call;
    return { path: this.#method.path, metadata: this.#requestMetadata as Metadata, getPeer: () => call.getPeer() };
  }

  /**
   * Adds a load report to the trailers of the status if the call asked for one. If not, adds an announcement that calls may ask; every
   * status needs it, because clients share connections. The application's own metadata object is not changed.
   */
  #withReport(status: Status): Status {
    const { reporter } = this.#parts;
    const requestMetadata = this.#requestMetadata;
    if (!this.#isOpen || reporter === undefined || requestMetadata === undefined) return status;
    const asksForReport = requestMetadata.get(loadReportFormatHeader).length > 0;
    const name = asksForReport ? TRAILER : reportsHeader;
    const { metadata } = status;
    // If the application sends a load report of its own, that report stays.
    if (metadata != null && metadata.get(name).length > 0) return status;
    const value = asksForReport ? reporter.message() : addressMarkOf(this.#call.getConnectionInfo?.());
    if (value === undefined) return status;
    const own = metadata == null ? new (requestMetadata.constructor as new () => Metadata)() : clone(metadata);
    own.set(name, value);
    return { ...status, metadata: own };
  }
}

function clone(metadata: Metadata): Metadata {
  return (metadata as Metadata & { clone(): Metadata }).clone();
}
