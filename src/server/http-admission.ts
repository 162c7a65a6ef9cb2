import { constants } from 'node:http2';
import { optionError } from '../runtime/check.js';
import { addressMarkOf } from './address.js';
import type { Admission } from './admission.js';
import { AwaitedBody } from './awaited-body.js';
import { answerNotBegun } from './http-refusal.js';
import type { HttpRequest, HttpRequests, HttpResponse } from './http-requests.js';
import { holdBody } from './internals.js';
import { announceOn, reportOn } from './report/http-report.js';
import type { LoadReporter, ReportFormat } from './report/load-reporter.js';
import type { RequestHeaders } from './request-headers.js';
import type { RequestRules } from './request-rules.js';
import { ServedCall, type ServedCallOwner, type ServedContext } from './served-call.js';

/** The property of a request that holds the request's response. */
const answeredBy = Symbol('evenkeel.answeredBy');
/** The property of a response that holds the `ServedCall` of its request. */
const servedCall = Symbol('evenkeel.servedCall');
/** The property of a connection that counts the requests which have not asked for a load report. */
const requestsWithoutReport = Symbol('evenkeel.requestsWithoutReport');

/**
 * Of the requests on a connection that do not ask for a load report, the first and every 64th get the announcement that requests may ask.
 * Repeating it is necessary because a proxy may use the connection for several clients.
 */
const ANNOUNCE_EVERY = 64;

interface Marked {
  [answeredBy]?: HttpResponse;
  [servedCall]?: ServedCall;
}

/** The parts of a pod that handle its HTTP requests. */
export interface HttpAdmissionParts extends ServedCallOwner {
  readonly requests: HttpRequests;
  readonly headers: RequestHeaders;
  readonly rules: RequestRules;
  readonly reporter: LoadReporter | undefined;
  readonly admission: Admission | undefined;
  readonly context: ServedContext | undefined;
}

/** Handles each HTTP request that arrives: serves it now, makes it wait, or refuses it. */
export class HttpAdmission {
  readonly #parts: HttpAdmissionParts;
  /** Whether every request is tracked to its end. Otherwise only those with a deadline are. */
  readonly #followsAll: boolean;

  constructor(parts: HttpAdmissionParts) {
    this.#parts = parts;
    this.#followsAll = parts.admission !== undefined || parts.context !== undefined;
  }

  /**
   * @param serve Serves the request; not called if the request is not begun.
   * @param leave Makes the framework leave the request alone, because it is not begun. If the caller is still there, the refusal is sent
   * here.
   */
  begin<T>(
    request: HttpRequest,
    response: HttpResponse,
    serve: () => T,
    leave?: () => void,
  ): T | undefined | Promise<Awaited<T> | undefined> {
    const { requests, headers, rules, reporter, admission } = this.#parts;
    const met = requests.meets(response);
    if (met === 'known') return serve();
    if (met === 'gone') {
      leave?.();
      return undefined;
    }
    (request as Marked)[answeredBy] = response;
    headers.read(request.rawHeaders);
    const { format } = headers;
    const deadlineMs = rules.deadlineMs(headers.deadlineMs);
    const call =
      this.#followsAll || deadlineMs !== undefined
        ? new ServedCall(this.#parts, deadlineMs, rules.priority(request, headers.priority))
        : undefined;
    if (call !== undefined) {
      (response as Marked)[servedCall] = call;
      call.response = response;
    }
    requests.began(request, response, call);
    if (reporter !== undefined) this.#report(request, response, format, reporter);
    if (call === undefined) return serve();
    const turnAway = (error: unknown): undefined => {
      leave?.();
      if (!call.isAbandoned) answerNotBegun(request, response, rules.refusal(error));
    };
    if (call.cameLate) return turnAway(undefined);
    const waiting = admission === undefined || rules.isUnlimited(request) ? undefined : admission.enter(call);
    const serveNow = (): T => {
      if (admission !== undefined && call.begunMs !== undefined && bodyFollows(request))
        this.#await(request, call, admission);
      return this.#serve(call, serve);
    };
    if (waiting === undefined) return serveNow();
    return waiting.then(serveNow, turnAway) as Promise<Awaited<T> | undefined>;
  }

  /** Returns a request's call. Throws EVENKEEL_OPTION for a request that this pod has not seen. */
  callOf(request: HttpRequest): ServedCall {
    const answer = (request as Marked)?.[answeredBy];
    if (answer === undefined) throw optionError('request', 'a request that this pod serves', request);
    const known = (answer as Marked)[servedCall];
    if (known !== undefined) return known;
    const call = new ServedCall(this.#parts, undefined, undefined);
    (answer as Marked)[servedCall] = call;
    this.#parts.requests.follow(request, answer, call);
    return call;
  }

  #report(
    request: HttpRequest,
    response: HttpResponse,
    format: ReportFormat | undefined,
    reporter: LoadReporter,
  ): void {
    if (format !== undefined) reportOn(response, format, reporter);
    else if (isDueForOffer(request)) {
      const mark = addressMarkOf(request.socket);
      if (mark !== undefined) announceOn(response, mark);
    }
  }

  /** Watches a request's body, because a request whose body does not come stops counting against the limit. */
  #await(request: HttpRequest, call: ServedCall, admission: Admission): void {
    const body = new AwaitedBody(admission, call, this.#parts.timers, () => {
      if (isReceived(request)) return false;
      holdBody(request, (isLast, pass) => body.deliver(isLast, pass));
      return true;
    });
  }

  #serve<T>(call: ServedCall, serve: () => T): T {
    const { context } = this.#parts;
    return context === undefined ? serve() : context.run(call, serve);
  }

  /** Runs `serve` in the async context in which the request began, which is lost when a framework reads the request's body. */
  resume(response: HttpResponse, serve: () => void): void {
    const { context } = this.#parts;
    const call = (response as Marked)[servedCall];
    if (context === undefined || call === undefined) serve();
    else context.run(call, serve);
  }
}

/** Whether this response should announce that requests may ask for a load report. */
function isDueForOffer(request: HttpRequest): boolean {
  const connection = ('stream' in request ? request.stream.session : request.socket) as
    | { [requestsWithoutReport]?: number }
    | null
    | undefined;
  if (connection === null || connection === undefined) return false;
  const count = connection[requestsWithoutReport] ?? 0;
  connection[requestsWithoutReport] = count + 1;
  return count % ANNOUNCE_EVERY === 0;
}

/** Whether a request's headers announce a body. */
function bodyFollows(request: HttpRequest): boolean {
  if ('stream' in request) return !request.stream.endAfterHeaders;
  const { headers } = request;
  const length = headers['content-length'];
  return headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}

/** Whether the whole body has arrived, even if nobody has read it. */
function isReceived(request: HttpRequest): boolean {
  if (!('stream' in request)) return request.complete;
  const { stream } = request;
  const state = stream.state?.state;
  return stream.destroyed || (state !== undefined && state >= constants.NGHTTP2_STREAM_STATE_HALF_CLOSED_REMOTE);
}
