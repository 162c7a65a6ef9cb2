import { loadReportFormatHeader, loadReportHeader, loadReportMethod } from '../load/orca.js';
import { optionError } from '../runtime/check.js';
import { addressMark, notBegunHeader } from '../runtime/not-begun.js';
import { untilDate } from '../runtime/wall-clock.js';
import type { Admission } from './admission.js';
import type { Refusal } from './http-refusal.js';
import type { LoadReporter } from './load-reporter.js';
import type { GrpcRequest } from './options.js';
import type { RequestCount } from './request-count.js';
import type { RequestRules } from './request-rules.js';
import { ServedCall, type ServedCallOwner } from './served-call.js';
import type { ServedContext } from './served-context.js';

/** The trailer with a report. */
const TRAILER = `${loadReportHeader}-bin`;
/** Codes of gRPC that say the server failed: UNKNOWN, INTERNAL, UNAVAILABLE, DATA_LOSS. */
const failures: ReadonlySet<number> = new Set([2, 13, 14, 15]);
const DEADLINE_EXCEEDED = 4;
const RESOURCE_EXHAUSTED = 8;
/** Says how long clients should wait before they try again, in ms (gRFC A6). */
const PUSHBACK = 'grpc-retry-pushback-ms';

/** On the metadata of a request: what serves it. The objects handlers get have nothing else in common with ours. */
const servedBy: unique symbol = Symbol('evenkeel.servedBy');

/** What is used of grpc-js, which is not imported: its own classes come with each call. */
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

/** A server of grpc-js, as far as its methods go. `never` stands for types of grpc-js. */
export interface GrpcMethods {
  register(name: string, handler: never, serialize: never, deserialize: never, type: string): boolean;
}

/** Has a server answer those who ask for a report apart from any call. */
export function addReportMethod(server: GrpcMethods, reporter: LoadReporter): void {
  const same = (message: Buffer): Buffer => message;
  const handler = (_call: unknown, callback: (error: null, answer: Buffer) => void): void =>
    callback(null, reporter.message());
  server.register(loadReportMethod, handler as never, same as never, same as never, 'unary');
}

/** Whether a method is that one. */
export function isReportMethod(method: unknown): boolean {
  return (method as { readonly path?: unknown } | null | undefined)?.path === loadReportMethod;
}

interface ServerCall {
  start(listener: Listener): void;
  sendStatus(status: Status): void;
  getPeer(): string;
  getDeadline?(): Date | number;
  getConnectionInfo?(): { readonly localAddress?: string; readonly localPort?: number };
}

interface Method {
  readonly path: string;
}

/** What gRPC calls meet in a pod. */
export interface GrpcCallsParts extends ServedCallOwner {
  readonly count: RequestCount;
  readonly rules: RequestRules;
  readonly reporter: LoadReporter | undefined;
  readonly admission: Admission | undefined;
  readonly context: ServedContext | undefined;
  readonly priorityHeader: string | undefined;
}

/**
 * What becomes of a call of a grpc-js server: it is counted, served at once, waits until it may begin, or is turned away; and its
 * status carries a report if the call asks for one. Calls are changed in place: those of later versions may have more methods than
 * are known here.
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

/** The call that a handler was given, as the pod knows it. Throws EVENKEEL_OPTION for one of another server. */
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
  /** Of the request; undefined until it has come. */
  #asked: Metadata | undefined;
  #served: ServedCall | undefined;
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
      const told = this.#withReport(status);
      // By grpc-js at the deadline, as a rule.
      if (status.code === DEADLINE_EXCEEDED) this.#served?.timedOut();
      this.#over(true, failures.has(status.code));
      this.#sendStatus.call(call, told);
    };
  }

  #listen(listener: Listener): void {
    const { onReceiveMetadata, onCancel } = listener;
    listener.onReceiveMetadata = (metadata) => {
      if (this.#asked !== undefined) {
        onReceiveMetadata.call(listener, metadata);
        return;
      }
      this.#asked = metadata;
      metadata[servedBy] = this;
      this.#isOpen = true;
      this.#parts.count.began();
      this.#admit(() => onReceiveMetadata.call(listener, metadata));
    };
    // Called at the end of every call, not only of those that are cancelled.
    listener.onCancel = () => {
      this.#over(false, false);
      onCancel.call(listener);
    };
    this.#keepContext(listener);
  }

  /** Handlers are called when a message has come, which happens outside of any context. */
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
    // Made only where it is needed: by far most calls have neither.
    if (
      getDeadline !== undefined &&
      getDeadline.call(this.#call) !== Number.POSITIVE_INFINITY &&
      this.served.cameLate
    ) {
      this.#turnAway(rules.refusal(undefined));
    } else if (admission === undefined || rules.isUnlimited(this.#request)) begin();
    else {
      const waiting = admission.enter(this.served);
      if (waiting === undefined) begin();
      else waiting.then(begin, (error: unknown) => this.#turnAway(rules.refusal(error)));
    }
  }

  /** It is not begun. */
  #turnAway({ text, retryAfterMs }: Refusal): void {
    if (!this.#isOpen) return;
    const trailers = new ((this.#asked as Metadata).constructor as new () => Metadata)();
    const { localAddress, localPort } = this.#call.getConnectionInfo?.() ?? {};
    if (localAddress !== undefined && localPort !== undefined) {
      trailers.set(notBegunHeader, addressMark(localAddress, localPort));
    }
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

  /** In ms from now. grpc-js ends the call then. */
  get #deadlineMs(): number | undefined {
    const date = this.#call.getDeadline?.();
    const given = date === undefined || date === Number.POSITIVE_INFINITY ? undefined : untilDate(Number(date));
    return this.#parts.rules.deadlineMs(given);
  }

  get #priority(): ServedCall['priority'] {
    const { rules, priorityHeader } = this.#parts;
    const [given] = priorityHeader === undefined ? [] : (this.#asked as Metadata).get(priorityHeader);
    return rules.priority(this.#request, given);
  }

  get #request(): GrpcRequest {
    const call = this.#call;
    return { path: this.#method.path, metadata: this.#asked as Metadata, getPeer: () => call.getPeer() };
  }

  /** The status with a report among its trailers. The application's own metadata is left as it is. */
  #withReport(status: Status): Status {
    const { reporter } = this.#parts;
    const asked = this.#asked;
    if (!this.#isOpen || reporter === undefined || asked === undefined) return status;
    if (asked.get(loadReportFormatHeader).length === 0) return status;
    const { metadata } = status;
    // The application reports itself.
    if (metadata != null && metadata.get(TRAILER).length > 0) return status;
    const own = metadata == null ? new (asked.constructor as new () => Metadata)() : clone(metadata);
    own.set(TRAILER, reporter.message());
    return { ...status, metadata: own };
  }
}

function clone(metadata: Metadata): Metadata {
  return (metadata as Metadata & { clone(): Metadata }).clone();
}
