import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../runtime/clock.js';
import type { Rng } from '../runtime/rng.js';
import { type AccessRequest, checkAccess, forbidden, type Tokens } from './api-server-access.js';
import { type Fault, FaultQueue, faultBody } from './api-server-fault.js';
import { answerList } from './api-server-list.js';
import { resourceTypes } from './api-server-objects.js';
import type { RecordedRequest } from './api-server-record.js';
import { Reply } from './api-server-reply.js';
import { acceptsJson, isTrue, parseRoute, refuseWatch, verbOf } from './api-server-route.js';
import { type LabelMatcher, parseLabelSelector } from './api-server-selector.js';
import { expiredStatus, statusObject } from './api-server-status.js';
import type { ObjectStore, StoreEvent } from './api-server-store.js';
import { bookmarkLine, eventLine, type Mangle, WatchStream } from './api-server-watch.js';
import { resetSocket } from './reset-socket.js';

/** How long a list waits for a version that is not there yet. */
const EARLY_LIST_MS = 3_000;
/** How long a consistent list hangs while the store is away. */
const STORE_TIMEOUT_MS = 60_000;
const MAX_RECORDED = 10_000;

/** What all requests to one API server share, restarts included. */
export class RequestHandler {
  readonly requests: RecordedRequest[] = [];
  readonly faults: FaultQueue = new FaultQueue();
  readonly watches: Set<WatchStream> = new Set();
  readonly counts: { list: number; watch: number; get: number } = { list: 0, watch: 0, get: 0 };
  tokens: Tokens | undefined;
  mangle: Mangle | undefined;
  /** Continue tokens of earlier epochs have expired. */
  epoch: number = 0;
  storeAvailable: boolean = true;
  /** The first requests are answered 403 for this long, counted from the very first: what a server does after its start. */
  #forbiddenMs = 0;
  #forbiddenSinceMs: number | undefined;
  readonly #store: ObjectStore;
  readonly #clock: Clock;
  readonly #rng: Rng;
  readonly #bookmarkIntervalMs: number;
  readonly #pagesFromCache: boolean;
  /** Requests that arrive while packets are dropped. */
  #frozen: (() => void)[] | undefined;
  #frozenVersion: number | undefined;

  constructor(
    store: ObjectStore,
    options: {
      readonly clock: Clock;
      readonly rng: Rng;
      readonly tokens: Tokens | undefined;
      readonly bookmarkIntervalMs: number;
      readonly pagesFromCache: boolean;
    },
  ) {
    this.#store = store;
    this.#clock = options.clock;
    this.#rng = options.rng;
    this.#bookmarkIntervalMs = options.bookmarkIntervalMs;
    this.#pagesFromCache = options.pagesFromCache;
    this.tokens = options.tokens;
    store.subscribe((event) => this.#broadcast(event));
  }

  /** A server process begins: its first answers are 403 for `forbiddenMs`. */
  begin(forbiddenMs: number): void {
    this.#forbiddenMs = forbiddenMs;
    this.#forbiddenSinceMs = undefined;
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    // A client that goes away mid-answer is no trouble of ours.
    response.on('error', () => {});
    request.on('error', () => {});
    if (this.#frozen !== undefined) {
      this.#frozen.push(() => this.#answer(request, response));
      return;
    }
    this.#answer(request, response);
  }

  /** Packets are dropped from here on: nothing goes out and nothing that comes in is answered. */
  freeze(): void {
    this.#frozen ??= [];
    for (const watch of this.watches) watch.hold();
  }

  thaw(): void {
    const waiting = this.#frozen ?? [];
    this.#frozen = undefined;
    for (const watch of this.watches) watch.release();
    for (const answer of waiting) answer();
  }

  /** The store goes away or comes back; while it is away bookmarks name the version of that moment. */
  setStoreAvailable(available: boolean): void {
    this.storeAvailable = available;
    this.#frozenVersion = available ? undefined : this.#store.revision;
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
    const asked: AccessRequest = { verb, ...route };
    const fault = this.faults.take(record);
    if (fault !== undefined && this.#misbehave(fault, request, reply, asked, url)) return;
    if (request.method !== 'GET') {
      reply.status(statusObject(405, `the server does not allow the method ${request.method} here`));
      return;
    }
    if (this.#warmingUp()) {
      reply.status(forbidden('system:serviceaccount:test:test', asked));
      return;
    }
    const refusal = checkAccess(this.tokens, request.headers.authorization, asked);
    if (refusal !== undefined) {
      reply.status(refusal);
      return;
    }
    if (!acceptsJson(request.headers.accept)) {
      reply.status(statusObject(406, 'only the following media types are accepted: application/json'));
      return;
    }
    if (verb === 'get') this.#get(asked, reply);
    else this.#collection(verb, asked, url.searchParams, reply);
  }

  /** Whether this request belongs to the first moments after a start. */
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
      reply.text(this.storeAvailable ? 200 : 500, this.storeAvailable ? 'ok' : 'etcd failed');
    else if (path === '/version') reply.json(200, '{"major":"1","minor":"36","gitVersion":"v1.36.0"}\n');
    else reply.text(404, '404 page not found\n');
  }

  /** Carries out a fault; false when the request should be answered after all. */
  #misbehave(fault: Fault, request: IncomingMessage, reply: Reply, asked: AccessRequest, url: URL): boolean {
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
        this.#openWatch(asked, url.searchParams, () => true, reply).error(status);
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

  #get(asked: AccessRequest, reply: Reply): void {
    const stored = this.#store.get(asked.resource, asked.namespace, asked.name);
    const { group } = resourceTypes[asked.resource];
    if (stored === undefined) {
      const kind = `${asked.resource}${group === '' ? '' : `.${group}`}`;
      reply.status(
        statusObject(404, `${kind} "${asked.name}" not found`, { details: { name: asked.name, kind: asked.resource } }),
      );
    } else reply.json(200, `${stored.eventText}\n`);
  }

  #collection(verb: 'list' | 'watch', asked: AccessRequest, query: URLSearchParams, reply: Reply): void {
    const selector = query.get('labelSelector') ?? '';
    const matches = parseLabelSelector(selector);
    if (matches === undefined) {
      reply.status(statusObject(400, `unable to parse requirement: ${selector}`));
      return;
    }
    if (query.get('fieldSelector')) {
      reply.status(statusObject(400, 'field label not supported'));
      return;
    }
    if (verb === 'watch') this.#watch(asked, query, matches, reply);
    else this.#list(asked, query, matches, reply);
  }

  #list(asked: AccessRequest, query: URLSearchParams, matches: LabelMatcher, reply: Reply): void {
    const resourceVersion = query.get('resourceVersion') ?? '';
    if (!this.storeAvailable && resourceVersion !== '0') {
      this.#clock.timer(
        () => reply.status(statusObject(504, 'Timeout: request did not complete within the allotted timeout')),
        STORE_TIMEOUT_MS,
      );
      return;
    }
    const answer = answerList(this.#store, {
      resource: asked.resource,
      namespace: asked.namespace,
      matches,
      selective: (query.get('labelSelector') ?? '') !== '',
      resourceVersion,
      resourceVersionMatch: query.get('resourceVersionMatch') ?? '',
      limit: Number(query.get('limit') ?? 0) || 0,
      continueToken: query.get('continue') ?? '',
      epoch: this.epoch,
      pagesFromCache: this.#pagesFromCache,
    });
    if (answer.kind === 'page') reply.json(200, answer.body, true);
    else if (answer.kind === 'failure') reply.status(answer.status);
    else {
      this.#clock.timer(() => {
        if (this.#store.revision >= answer.wanted) this.#list(asked, query, matches, reply);
        else reply.status(answer.status, 1);
      }, EARLY_LIST_MS);
    }
  }

  #watch(asked: AccessRequest, query: URLSearchParams, matches: LabelMatcher, reply: Reply): void {
    const resourceVersion = query.get('resourceVersion') ?? '';
    const initial = query.get('sendInitialEvents') ?? '';
    const refusal = refuseWatch(query);
    if (refusal !== undefined) {
      reply.status(refusal);
      return;
    }
    const stream = this.#openWatch(asked, query, matches, reply);
    if (!this.storeAvailable && resourceVersion === '') {
      stream.error(statusObject(500, 'etcdserver: no leader', { reason: 'InternalError' }));
      return;
    }
    const version = Number(resourceVersion || '0');
    if (isTrue(initial) || (initial === '' && version === 0)) {
      const objects = this.#store.list(asked.resource, asked.namespace).filter((stored) => matches(stored.labels));
      // In no order.
      const lines = objects.map((stored) => eventLine('ADDED', stored.eventText)).reverse();
      const marked = isTrue(initial) && isTrue(query.get('allowWatchBookmarks'));
      stream.backlog(lines, marked ? bookmarkLine(asked.resource, this.#store.revision, true) : undefined);
      return;
    }
    const missed = this.#store.eventsAfter(asked.resource, version);
    if (missed === undefined) stream.error(expiredStatus(version, this.#store.compacted));
    else stream.backlog(missed.map((event) => stream.lineFor(event)).filter((line) => line !== undefined));
    // From a version that is not there yet: silence, until the store is past it.
    if (version > this.#store.revision) stream.floor = version;
  }

  #openWatch(asked: AccessRequest, query: URLSearchParams, matches: LabelMatcher, reply: Reply): WatchStream {
    const timeoutSeconds = Number(query.get('timeoutSeconds') ?? 0);
    reply.record.status = 200;
    const stream = new WatchStream({
      response: reply.response,
      resource: asked.resource,
      namespace: asked.namespace,
      matches,
      bookmarks: isTrue(query.get('allowWatchBookmarks')),
      bookmarkIntervalMs: this.#bookmarkIntervalMs,
      timeoutMs: timeoutSeconds > 0 ? timeoutSeconds * 1_000 : (30 + 30 * this.#rng.next()) * 60_000,
      clock: this.#clock,
      rng: this.#rng,
      version: () => this.#frozenVersion ?? this.#store.revision,
      mangle: () => this.mangle,
    });
    this.watches.add(stream);
    reply.response.on('close', () => this.watches.delete(stream));
    return stream;
  }

  #broadcast(event: StoreEvent): void {
    for (const watch of this.watches) watch.deliver(event);
  }
}
