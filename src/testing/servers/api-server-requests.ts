import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../../runtime/clock.js';
import { type AccessRequest, checkAccess, forbidden, type Tokens } from './api-server-access.js';
import { type Fault, FaultQueue, faultBody } from './api-server-fault.js';
import type { StoreReads } from './api-server-reads.js';
import type { RecordedRequest } from './api-server-record.js';
import { Reply } from './api-server-reply.js';
import { acceptsJson, parseRoute, verbOf } from './api-server-route.js';
import { statusObject } from './api-server-status.js';
import { resetSocket } from './reset-socket.js';

const MAX_RECORDED = 10_000;

/** What all requests to one API server share, across restarts. */
export class RequestHandler {
  readonly requests: RecordedRequest[] = [];
  readonly faults: FaultQueue = new FaultQueue();
  readonly counts: { list: number; watch: number; get: number } = { list: 0, watch: 0, get: 0 };
  tokens: Tokens | undefined;
  /** How long requests get 403, in ms, counted from the first request, as after the start of a real API server. */
  #forbiddenMs = 0;
  #forbiddenSinceMs: number | undefined;
  readonly #reads: StoreReads;
  readonly #clock: Clock;
  /** The requests that arrived while packets are dropped. */
  #frozen: (() => void)[] | undefined;

  constructor(reads: StoreReads, clock: Clock, tokens: Tokens | undefined) {
    this.#reads = reads;
    this.#clock = clock;
    this.tokens = tokens;
  }

  /** Notes that a server process starts: its first responses are 403 for `forbiddenMs`. */
  begin(forbiddenMs: number): void {
    this.#forbiddenMs = forbiddenMs;
    this.#forbiddenSinceMs = undefined;
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    // A client that disconnects in the middle of a response is not an error.
    response.on('error', () => {});
    request.on('error', () => {});
    if (this.#frozen !== undefined) {
      this.#frozen.push(() => this.#answer(request, response));
      return;
    }
    this.#answer(request, response);
  }

  /** Drops packets from now on: nothing is sent, and incoming requests get no response. */
  freeze(): void {
    this.#frozen ??= [];
    for (const watch of this.#reads.watches) watch.hold();
  }

  thaw(): void {
    const waiting = this.#frozen ?? [];
    this.#frozen = undefined;
    for (const watch of this.#reads.watches) watch.release();
    for (const answer of waiting) answer();
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', 'http://api');
    const route = parseRoute(url.pathname);
    const verb = route === undefined ? undefined : verbOf(route, url.searchParams);
    const record: RecordedRequest = {
      verb: verb ?? 'other',
      path: url.pathname,
      resource: route?.resource,
      namespace: route?.namespace ?? '',
      query: Object.fromEntries(url.searchParams),
      headers: request.headers,
      status: 0,
    };
    this.requests.push(record);
    if (this.requests.length > MAX_RECORDED) this.requests.shift();
    if (verb !== undefined) this.counts[verb] += 1;
    const reply = new Reply(request, response, record);

    if (route === undefined || verb === undefined) {
      this.#answerOther(url.pathname, reply);
      return;
    }
    const access: AccessRequest = { verb, ...route };
    const fault = this.faults.take(record);
    if (fault !== undefined && this.#misbehave(fault, request, reply, access, url)) return;
    if (request.method !== 'GET') {
      reply.status(statusObject(405, `the server does not allow the method ${request.method} here`));
      return;
    }
    if (this.#warmingUp()) {
      reply.status(forbidden('system:serviceaccount:test:test', access));
      return;
    }
    const refusal = checkAccess(this.tokens, request.headers.authorization, access);
    if (refusal !== undefined) {
      reply.status(refusal);
      return;
    }
    if (!acceptsJson(request.headers.accept)) {
      reply.status(statusObject(406, 'only the following media types are accepted: application/json'));
      return;
    }
    this.#reads.answer(verb, access, url.searchParams, reply);
  }

  /** Whether this request arrives so shortly after a start that it gets 403. */
  #warmingUp(): boolean {
    if (this.#forbiddenMs === 0) return false;
    this.#forbiddenSinceMs ??= this.#clock.now();
    if (this.#clock.now() - this.#forbiddenSinceMs < this.#forbiddenMs) return true;
    this.#forbiddenMs = 0;
    return false;
  }

  #answerOther(path: string, reply: Reply): void {
    if (path === '/livez' || path === '/healthz') reply.text(200, 'ok');
    else if (path === '/readyz')
      reply.text(this.#reads.available ? 200 : 500, this.#reads.available ? 'ok' : 'etcd failed');
    else if (path === '/version') reply.json(200, '{"major":"1","minor":"36","gitVersion":"v1.36.0"}\n');
    else reply.text(404, '404 page not found\n');
  }

  /** Carries out a fault; returns false if the request should be answered normally after all. */
  #misbehave(fault: Fault, request: IncomingMessage, reply: Reply, access: AccessRequest, url: URL): boolean {
    switch (fault.kind) {
      case 'hang':
        return true;
      case 'reset':
        resetSocket(request.socket);
        return true;
      case 'silent':
        reply.open();
        return true;
      case 'empty':
        reply.json(200, '');
        return true;
      case 'body':
        reply.json(200, fault.body);
        return true;
      case 'truncated':
        reply.truncateAt = fault.bytes;
        return false;
      case 'error-event': {
        const status = statusObject(
          fault.status,
          `scripted ${fault.status}`,
          fault.reason === undefined ? {} : { reason: fault.reason },
        );
        this.#reads.answerError(access, url.searchParams, status, reply);
        return true;
      }
      case 'status': {
        const { type, body } = faultBody(fault);
        const retryAfter = fault.retryAfterSeconds;
        reply.send(fault.status, type, body, retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) });
        return true;
      }
    }
  }
}
