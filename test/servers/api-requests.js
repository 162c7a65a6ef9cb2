import { gzipSync } from 'node:zlib';
import { isTrue, resetSocket, statusObject } from './api-reads.js';
import { resourceTypes } from './api-store.js';

const MAX_RECORDED = 10_000;

/** What all requests to one API server share, across restarts. */
export class RequestHandler {
  requests = [];
  faults = new FaultQueue();
  counts = { list: 0, watch: 0, get: 0 };
  tokens;
  /** How long requests get 403, in ms, counted from the first request, as after the start of a real API server. */
  #forbiddenMs = 0;
  #forbiddenSinceMs;
  #reads;
  #clock;
  /** The requests that arrived while packets are dropped. */
  #frozen;

  constructor(reads, clock, tokens) {
    this.#reads = reads;
    this.#clock = clock;
    this.tokens = tokens;
  }

  /** Notes that a server process starts: its first responses are 403 for `forbiddenMs`. */
  begin(forbiddenMs) {
    this.#forbiddenMs = forbiddenMs;
    this.#forbiddenSinceMs = undefined;
  }

  handle(request, response) {
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
  freeze() {
    this.#frozen ??= [];
    for (const watch of this.#reads.watches) watch.hold();
  }

  thaw() {
    const waiting = this.#frozen ?? [];
    this.#frozen = undefined;
    for (const watch of this.#reads.watches) watch.release();
    for (const answer of waiting) answer();
  }

  #answer(request, response) {
    const url = new URL(request.url ?? '/', 'http://api');
    const route = parseRoute(url.pathname);
    const verb = route === undefined ? undefined : verbOf(route, url.searchParams);
    const record = {
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
    const access = { verb, ...route };
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
  #warmingUp() {
    if (this.#forbiddenMs === 0) return false;
    this.#forbiddenSinceMs ??= this.#clock.now();
    if (this.#clock.now() - this.#forbiddenSinceMs < this.#forbiddenMs) return true;
    this.#forbiddenMs = 0;
    return false;
  }

  #answerOther(path, reply) {
    if (path === '/livez' || path === '/healthz') reply.text(200, 'ok');
    else if (path === '/readyz')
      reply.text(this.#reads.available ? 200 : 500, this.#reads.available ? 'ok' : 'etcd failed');
    else if (path === '/version') reply.json(200, '{"major":"1","minor":"36","gitVersion":"v1.36.0"}\n');
    else reply.text(404, '404 page not found\n');
  }

  /** Carries out a fault; returns false if the request should be answered normally after all. */
  #misbehave(fault, request, reply, access, url) {
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

/** Parses a request's path; undefined for an unknown path. */
export function parseRoute(path) {
  for (const { name: resource, root } of Object.values(resourceTypes)) {
    if (!path.startsWith(`${root}/`)) continue;
    const parts = path
      .slice(root.length + 1)
      .split('/')
      .map(decodeURIComponent);
    if (parts[0] === 'namespaces' && parts[2] === resource && parts.length <= 4) {
      return { resource, namespace: parts[1], name: parts[3] ?? '' };
    }
    if (parts[0] === resource && parts.length === 1) return { resource, namespace: '', name: '' };
  }
  return undefined;
}

/** The verb of a request, by its path and query. */
export function verbOf({ name }, query) {
  if (name !== '') return 'get';
  return isTrue(query.get('watch')) ? 'watch' : 'list';
}

export function acceptsJson(accept) {
  return accept === undefined || accept === '' || /\*\/\*|application\/(json|\*)/.test(accept);
}

/** Lists above this size, in bytes, are compressed for clients that accept that. */
const GZIP_BYTES = 128 * 1024;

/** One response of the API server, which keeps the record of its request up to date. */
export class Reply {
  response;
  record;
  truncateAt;
  #request;

  constructor(request, response, record) {
    this.#request = request;
    this.response = response;
    this.record = record;
  }

  /** Sends only the headers of the response. */
  open() {
    this.record.status = 200;
    this.response.writeHead(200, { 'content-type': 'application/json' });
    this.response.flushHeaders();
  }

  text(status, body) {
    this.send(status, 'text/plain; charset=utf-8', body);
  }

  status(status, retryAfterSeconds) {
    const headers = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) };
    this.send(status.code, 'application/json', `${JSON.stringify(status)}\n`, headers);
  }

  json(status, body, compressible = false) {
    if (
      compressible &&
      body.length > GZIP_BYTES &&
      /\bgzip\b/.test(String(this.#request.headers['accept-encoding'] ?? ''))
    ) {
      this.send(status, 'application/json', gzipSync(body, { level: 1 }), { 'content-encoding': 'gzip' });
    } else this.send(status, 'application/json', body);
  }

  send(status, type, body, headers = {}) {
    if (this.response.destroyed || this.response.headersSent) return;
    this.record.status = status;
    const bytes = Buffer.from(body);
    this.response.writeHead(status, { 'content-type': type, 'content-length': bytes.length, ...headers });
    if (this.truncateAt === undefined || this.truncateAt >= bytes.length) {
      this.response.end(bytes);
      return;
    }
    // The connection ends only once these bytes were written, so that the client gets them.
    this.response.write(bytes.subarray(0, this.truncateAt), () => this.response.socket?.destroySoon());
  }
}

/** The faults that requests have not met yet, in order of registration. */
export class FaultQueue {
  #pending = [];

  add(verb, fault, { times = 1, when }) {
    this.#pending.push({ verb, fault, when, left: times });
  }

  /** Takes the fault for this request out of the queue; undefined if there is none. */
  take(request) {
    const pending = this.#pending.find(
      ({ verb, when }) => (verb === 'any' || verb === request.verb) && (when === undefined || when(request)),
    );
    if (pending === undefined) return undefined;
    pending.left -= 1;
    if (pending.left <= 0) this.#pending = this.#pending.filter((other) => other !== pending);
    return pending.fault;
  }

  clear() {
    this.#pending = [];
  }
}

/** The content type and the body of the response for a `status` fault. */
export function faultBody(fault) {
  if (fault.body !== undefined) return { type: 'text/plain; charset=utf-8', body: fault.body };
  if (fault.status === 429) {
    // A real API server's flow control responds before its API machinery, in plain text and without a Status.
    return { type: 'text/plain; charset=utf-8', body: 'Too many requests, please try again later.\n' };
  }
  const status = statusObject(
    fault.status,
    `scripted ${fault.status}`,
    fault.reason === undefined ? {} : { reason: fault.reason },
  );
  return { type: 'application/json', body: `${JSON.stringify(status)}\n` };
}

/**
 * Decides whether a request is allowed, as a real API server does: without a token it is an anonymous user's, who may do nothing (403); an
 * unknown token is refused with 401, a known token without the permission with 403. Returns undefined if the request is allowed. Without
 * `tokens` everything is allowed.
 */
export function checkAccess(tokens, authorization, request) {
  if (tokens === undefined) return undefined;
  const token = /^Bearer (.+)$/i.exec(authorization ?? '')?.[1];
  if (token === undefined) return forbidden('system:anonymous', request);
  const grants = Object.hasOwn(tokens, token) ? tokens[token] : undefined;
  if (grants === undefined) return statusObject(401, 'Unauthorized');
  if (grants === 'all') return undefined;
  const allowed = grants.some(
    (grant) =>
      (grant.namespace === '*' || grant.namespace === request.namespace) &&
      (grant.verbs.includes('*') || grant.verbs.includes(request.verb)) &&
      (grant.resources.includes('*') || grant.resources.includes(request.resource)),
  );
  return allowed ? undefined : forbidden('system:serviceaccount:test:test', request);
}

/** Creates the refusal in a real API server's words: user, verb, resource and scope. */
export function forbidden(user, request) {
  const { verb, resource, namespace, name } = request;
  const { group } = resourceTypes[resource];
  const what = `${resource}${group === '' ? '' : `.${group}`}${name === '' ? '' : ` "${name}"`}`;
  const scope = namespace === '' ? 'at the cluster scope' : `in the namespace "${namespace}"`;
  const message = `${what} is forbidden: User "${user}" cannot ${verb} resource "${resource}" in API group "${group}" ${scope}`;
  return statusObject(403, message, {
    details: { kind: resource, ...(group === '' ? {} : { group }), ...(name === '' ? {} : { name }) },
  });
}
