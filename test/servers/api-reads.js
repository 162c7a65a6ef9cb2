import { resourceTypes } from './api-store.js';

/** How long a list waits for a version that does not exist yet, in ms. */
const EARLY_LIST_MS = 3_000;
/** How long a consistent list hangs while the store is unavailable, in ms. */
const STORE_TIMEOUT_MS = 60_000;

/** Serves the store's contents as a real API server does: get, list and watch. */
export class StoreReads {
  watches = new Set();
  /** Rewrites every line of every watch; undefined leaves lines as they are. */
  mangle;
  /** The number of the current epoch of continue tokens: tokens from earlier epochs have expired. */
  epoch = 0;
  #store;
  #options;
  #available = true;
  /** The version that bookmarks carry while the store is unavailable. */
  #frozenVersion;

  constructor(store, options) {
    this.#store = store;
    this.#options = options;
    store.subscribe((event) => this.#broadcast(event));
  }

  /** Whether the store behind the API server is available. */
  get available() {
    return this.#available;
  }

  /** Makes the store available or unavailable. While it is unavailable, bookmarks carry the version it had when it became so. */
  setAvailable(available) {
    this.#available = available;
    this.#frozenVersion = available ? undefined : this.#store.revision;
  }

  answer(verb, access, query, reply) {
    if (verb === 'get') this.#get(access, reply);
    else this.#collection(verb, access, query, reply);
  }

  /** Opens a watch that ends at once with an ERROR event. */
  answerError(access, query, status, reply) {
    this.#openWatch(access, query, () => true, reply).error(status);
  }

  #get(access, reply) {
    const stored = this.#store.get(access.resource, access.namespace, access.name);
    const { group } = resourceTypes[access.resource];
    if (stored === undefined) {
      const kind = `${access.resource}${group === '' ? '' : `.${group}`}`;
      reply.status(
        statusObject(404, `${kind} "${access.name}" not found`, {
          details: { name: access.name, kind: access.resource },
        }),
      );
    } else reply.json(200, `${stored.eventText}\n`);
  }

  #collection(verb, access, query, reply) {
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
    if (verb === 'watch') this.#watch(access, query, matches, reply);
    else this.#list(access, query, matches, reply);
  }

  #list(access, query, matches, reply) {
    const resourceVersion = query.get('resourceVersion') ?? '';
    if (!this.#available && resourceVersion !== '0') {
      this.#options.clock.timer(
        () => reply.status(statusObject(504, 'Timeout: request did not complete within the allotted timeout')),
        STORE_TIMEOUT_MS,
      );
      return;
    }
    const answer = answerList(this.#store, {
      resource: access.resource,
      namespace: access.namespace,
      matches,
      selective: (query.get('labelSelector') ?? '') !== '',
      resourceVersion,
      resourceVersionMatch: query.get('resourceVersionMatch') ?? '',
      limit: Number(query.get('limit') ?? 0) || 0,
      continueToken: query.get('continue') ?? '',
      epoch: this.epoch,
      pagesFromCache: this.#options.pagesFromCache,
    });
    if (answer.kind === 'page') reply.json(200, answer.body, true);
    else if (answer.kind === 'failure') reply.status(answer.status);
    else {
      this.#options.clock.timer(() => {
        if (this.#store.revision >= answer.wanted) this.#list(access, query, matches, reply);
        else reply.status(answer.status, 1);
      }, EARLY_LIST_MS);
    }
  }

  #watch(access, query, matches, reply) {
    const resourceVersion = query.get('resourceVersion') ?? '';
    const initial = query.get('sendInitialEvents') ?? '';
    const refusal = refuseWatch(query, this.#options.streamingLists);
    if (refusal !== undefined) {
      reply.status(refusal);
      return;
    }
    const stream = this.#openWatch(access, query, matches, reply);
    if (!this.#available && resourceVersion === '') {
      stream.error(statusObject(500, 'etcdserver: no leader', { reason: 'InternalError' }));
      return;
    }
    const version = Number(resourceVersion || '0');
    if (isTrue(initial) && version > this.#store.revision) {
      // The watch waits as a list would, and reports its failure in an event, because its status has already been sent.
      this.#options.clock.timer(() => stream.error(tooLargeStatus(version, this.#store.revision)), EARLY_LIST_MS);
      return;
    }
    if (isTrue(initial) || (initial === '' && version === 0)) {
      const objects = this.#store.list(access.resource, access.namespace).filter((stored) => matches(stored.labels));
      // A real API server sends the objects in no particular order, so they are reversed.
      const lines = objects.map((stored) => eventLine('ADDED', stored.eventText)).reverse();
      const marked = isTrue(initial) && isTrue(query.get('allowWatchBookmarks'));
      stream.backlog(lines, marked ? bookmarkLine(access.resource, this.#store.revision, true) : undefined);
      return;
    }
    const missed = this.#store.eventsAfter(access.resource, version);
    if (missed === undefined) stream.error(expiredStatus(version, this.#store.compacted));
    else stream.backlog(missed.map((event) => stream.lineFor(event)).filter((line) => line !== undefined));
    // A watch from a version that does not exist yet gets nothing until the store has passed that version.
    if (version > this.#store.revision) stream.floor = version;
  }

  #openWatch(access, query, matches, reply) {
    const timeoutSeconds = Number(query.get('timeoutSeconds') ?? 0);
    reply.record.status = 200;
    const stream = new WatchStream({
      response: reply.response,
      resource: access.resource,
      namespace: access.namespace,
      matches,
      bookmarks: isTrue(query.get('allowWatchBookmarks')),
      bookmarkIntervalMs: this.#options.bookmarkIntervalMs,
      timeoutMs: timeoutSeconds > 0 ? timeoutSeconds * 1_000 : (30 + 30 * this.#options.rng.next()) * 60_000,
      clock: this.#options.clock,
      rng: this.#options.rng,
      version: () => this.#frozenVersion ?? this.#store.revision,
      mangle: () => this.mangle,
    });
    this.watches.add(stream);
    reply.response.on('close', () => this.watches.delete(stream));
    return stream;
  }

  #broadcast(event) {
    for (const watch of this.watches) watch.deliver(event);
  }
}

/** Answers a list request as a real API server does for each form of `resourceVersion`, `limit` and `continue`. */
export function answerList(store, query) {
  const { resource, namespace, resourceVersion, resourceVersionMatch: match, continueToken } = query;
  if (continueToken !== '') return answerContinue(store, query);
  if (match !== '' && match !== 'NotOlderThan' && match !== 'Exact') {
    return invalid(`resourceVersionMatch: Unsupported value: "${match}"`);
  }
  if (match !== '' && resourceVersion === '') {
    return invalid(
      'resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided',
    );
  }
  if (!/^\d*$/.test(resourceVersion)) {
    return failure(
      statusObject(
        400,
        `Invalid value: "${resourceVersion}": strconv.ParseUint: parsing "${resourceVersion}": invalid syntax`,
      ),
    );
  }
  const wanted = Number(resourceVersion || '0');
  if (match === 'Exact' && wanted === 0)
    return invalid('resourceVersionMatch: Forbidden: "Exact" is forbidden for resourceVersion "0"');
  // Before `resourceVersionMatch` existed, a limit together with a version meant "exactly this version"; real API servers still do that.
  const exact = match === 'Exact' || (match === '' && wanted > 0 && query.limit > 0);
  if (wanted > store.revision) return { kind: 'early', wanted, status: tooLargeStatus(wanted, store.revision) };
  if (exact) {
    const objects = store.listAt(resource, namespace, wanted);
    if (objects === undefined) return failure(expiredStatus(wanted, store.compacted));
    return page(query, objects, wanted, '', query.limit);
  }
  const limit = resourceVersion !== '' && !query.pagesFromCache ? 0 : query.limit;
  return page(query, store.list(resource, namespace), store.revision, '', limit);
}

function answerContinue(store, query) {
  const token = readToken(query.continueToken);
  if (token === undefined) return failure(statusObject(400, 'continue key is not valid: invalid format'));
  if (query.resourceVersion !== '' && query.resourceVersion !== '0') {
    return failure(statusObject(400, 'specifying resource version is not allowed when using continue'));
  }
  if (token.rv === -1) {
    return page(query, store.list(query.resource, query.namespace), store.revision, token.after, query.limit);
  }
  const objects = token.epoch < query.epoch ? undefined : store.listAt(query.resource, query.namespace, token.rv);
  if (objects === undefined) {
    const rest = writeToken({ rv: -1, after: token.after, epoch: query.epoch });
    const message =
      'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results.';
    return failure(statusObject(410, message, { continue: rest }));
  }
  return page(query, objects, token.rv, token.after, query.limit);
}

function page(query, objects, revision, after, limit) {
  const { kind, apiVersion } = resourceTypes[query.resource];
  const selected = objects.filter((stored) => keyOf(stored) > after && query.matches(stored.labels));
  const items = limit === 0 ? selected : selected.slice(0, limit);
  const left = selected.length - items.length;
  const metadata = { resourceVersion: String(revision) };
  if (left > 0) {
    metadata.continue = writeToken({
      rv: revision,
      after: keyOf(items[items.length - 1]),
      epoch: query.epoch,
    });
    if (!query.selective) metadata.remainingItemCount = left;
  }
  const head = JSON.stringify({ kind: `${kind}List`, apiVersion, metadata });
  const body = `${head.slice(0, -1)},"items":[${items.map((stored) => stored.itemText).join(',')}]}\n`;
  return { kind: 'page', body };
}

const keyOf = (stored) => `${stored.namespace}/${stored.name}`;

function writeToken(token) {
  return Buffer.from(JSON.stringify(token)).toString('base64url');
}

function readToken(text) {
  try {
    const token = JSON.parse(Buffer.from(text, 'base64url').toString());
    if (typeof token.rv !== 'number' || typeof token.after !== 'string' || typeof token.epoch !== 'number')
      return undefined;
    return token;
  } catch {
    return undefined;
  }
}

function failure(status) {
  return { kind: 'failure', status };
}

function invalid(message) {
  return failure(statusObject(422, `ListOptions.meta.k8s.io "" is invalid: ${message}`));
}

/** The backlog of a watch is sent in chunks of up to this many bytes, cut anywhere. */
const PIECE_BYTES = 2_048;
/** A client that leaves this many bytes unread is disconnected, as a real API server does with slow watchers. */
const MAX_UNREAD_BYTES = 64 * 1024 * 1024;

/** One open watch: turns writes to the store into events, one JSON object per line. */
export class WatchStream {
  #options;
  /** Writes up to this version are not sent, because the client already knows them. */
  floor = 0;
  #timers = new Set();
  #held;
  #silent = false;
  #ended = false;

  constructor(options) {
    this.#options = options;
    const { response } = options;
    response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-cache, private' });
    response.flushHeaders();
    response.on('close', () => this.#stop());
    this.#schedule();
  }

  /** Whether the client is still connected and the body has not ended. */
  get open() {
    return !this.#ended;
  }

  /** Sends the state or the history that a client requested as one backlog. `endMark` ends a streaming list. */
  backlog(lines, endMark) {
    const all = endMark === undefined ? lines : [...lines, endMark];
    if (all.length === 0) return;
    if (this.#options.mangle() !== undefined) {
      for (const line of all) this.#line(line);
      return;
    }
    const bytes = Buffer.from(all.map((line) => `${line}\n`).join(''));
    for (let start = 0; start < bytes.length; ) {
      // The chunks of a backlog have random lengths, so that their boundaries fall anywhere.
      const length = 1 + Math.floor(this.#options.rng.next() * PIECE_BYTES);
      this.#write(bytes.subarray(start, start + length));
      start += length;
    }
  }

  /** Sends one write, if this watch's selector matches it. */
  deliver(event) {
    if (event.revision <= this.floor) return;
    const line = this.lineFor(event);
    if (line !== undefined) this.#line(line);
  }

  /** The line for a write as this watch's selector sees it: an object whose labels stop matching is DELETED. */
  lineFor(event) {
    const { resource, namespace, matches } = this.#options;
    const stored = event.after ?? event.before;
    if (event.resource !== resource || (namespace !== '' && stored.namespace !== namespace)) return undefined;
    const before = event.before !== undefined && matches(event.before.labels);
    const after = event.after !== undefined && matches(event.after.labels);
    if (after) return eventLine(before ? 'MODIFIED' : 'ADDED', event.after.eventText);
    if (!before) return undefined;
    return eventLine('DELETED', event.before.at(event.revision).eventText);
  }

  bookmark() {
    this.#line(bookmarkLine(this.#options.resource, this.#options.version()));
  }

  error(status) {
    this.#line(`{"type":"ERROR","object":${JSON.stringify(status)}}`);
    this.end();
  }

  disturb(what) {
    if (what === 'end') this.end();
    else if (what === 'reset') this.reset();
    else if (what === 'silence') this.#silent = true;
    else if (what === 'bookmark') this.bookmark();
    else if (what === 'garbage') this.#write(Buffer.from('{"type":"MODIFIED","object":{"metadata":\n'));
    else if (what === 'cut') {
      this.#write(Buffer.from('{"type":"MODIFIED","object":{"kind":"EndpointSli'));
      this.end();
    } else this.#write(Buffer.from(what.raw));
  }

  end() {
    if (this.#ended || this.#silent) return;
    this.#options.response.end();
    this.#stop();
  }

  reset() {
    const { socket } = this.#options.response;
    if (socket) resetSocket(socket);
    this.#stop();
  }

  /** Holds back everything the watch sends, like a network that drops packets. */
  hold() {
    this.#held ??= [];
  }

  /** Sends at once what the watch has held back. */
  release() {
    const held = this.#held;
    this.#held = undefined;
    for (const bytes of held ?? []) this.#write(bytes);
  }

  #schedule() {
    const { timeoutMs, bookmarks, bookmarkIntervalMs, rng } = this.#options;
    this.#timer(() => this.end(), timeoutMs);
    if (!bookmarks) return;
    const scheduleBookmark = () => {
      this.#timer(() => {
        this.bookmark();
        scheduleBookmark();
      }, bookmarkIntervalMs);
    };
    scheduleBookmark();
    // The watch sends a bookmark in its last two seconds, so that the next watch starts from a recent version.
    if (timeoutMs > 2_000) this.#timer(() => this.bookmark(), timeoutMs - 2_000 + rng.next() * 1_500);
  }

  #timer(fn, delayMs) {
    const timer = this.#options.clock.timer(() => {
      this.#timers.delete(timer);
      fn();
    }, delayMs);
    this.#timers.add(timer);
  }

  #line(line) {
    const bytes = Buffer.from(`${line}\n`);
    const mangled = this.#options.mangle()?.(bytes);
    if (mangled === undefined) {
      this.#write(bytes);
      return;
    }
    for (const piece of mangled.pieces) this.#write(Buffer.from(piece));
    if (mangled.after === 'end') this.end();
    else if (mangled.after === 'reset') this.reset();
  }

  #write(bytes) {
    if (this.#ended || this.#silent) return;
    if (this.#held !== undefined) {
      this.#held.push(bytes);
      return;
    }
    const { response } = this.#options;
    response.write(bytes);
    if (response.writableLength > MAX_UNREAD_BYTES) this.reset();
  }

  #stop() {
    this.#ended = true;
    for (const timer of this.#timers) timer.cancel();
    this.#timers.clear();
  }
}

export function eventLine(type, objectText) {
  return `{"type":"${type}","object":${objectText}}`;
}

/** A bookmark as a real API server sends it: the nameless, empty object of the kind. */
export function bookmarkLine(resource, version, initialEventsEnd = false) {
  const { kind, apiVersion } = resourceTypes[resource];
  const metadata = {
    resourceVersion: String(version),
    ...(initialEventsEnd ? { annotations: { 'k8s.io/initial-events-end': 'true' } } : {}),
  };
  const rest =
    resource === 'endpointslices' ? { addressType: '', endpoints: null, ports: null } : { spec: {}, status: {} };
  return JSON.stringify({ type: 'BOOKMARK', object: { kind, apiVersion, metadata, ...rest } });
}

/**
 * Parses a label selector: `a=b`, `a==b`, `a!=b`, `a`, `!a`, `a in (b,c)`, `a notin (b,c)`, joined by commas. Returns undefined for text
 * that is none of these. An object without the label matches `!=` and `notin`.
 */
export function parseLabelSelector(text) {
  const matchers = [];
  // Commas inside parentheses separate the values of a set, not requirements.
  for (const part of text.match(/(?:\([^)]*\)?|[^,(])+/g) ?? []) {
    if (part.trim() === '') continue;
    const matcher = parseRequirement(part.trim());
    if (matcher === undefined) return undefined;
    matchers.push(matcher);
  }
  return (labels) => matchers.every((matches) => matches(labels));
}

/** The value of an object's own label; inherited properties do not count, because a selector may name any key. */
function labelOf(labels, key) {
  return labels !== undefined && Object.hasOwn(labels, key) ? labels[key] : undefined;
}

function parseRequirement(text) {
  const equality = /^([\w./-]+)\s*(==|=|!=)\s*([\w.-]*)$/.exec(text);
  if (equality) {
    const [, key, operator, value] = equality;
    return operator === '!=' ? (labels) => labelOf(labels, key) !== value : (labels) => labelOf(labels, key) === value;
  }
  const set = /^([\w./-]+)\s+(in|notin)\s+\(([^()]*)\)$/.exec(text);
  if (set) {
    const [, key = '', operator, list = ''] = set;
    const values = new Set(list.split(',').map((value) => value.trim()));
    return (labels) => {
      const value = labelOf(labels, key);
      return operator === 'in' ? value !== undefined && values.has(value) : value === undefined || !values.has(value);
    };
  }
  const existence = /^(!?)\s*([\w./-]+)$/.exec(text);
  if (existence) {
    const [, not, key] = existence;
    return (labels) => (labelOf(labels, key) === undefined) === (not === '!');
  }
  return undefined;
}

const reasons = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  406: 'NotAcceptable',
  410: 'Expired',
  422: 'Invalid',
  429: 'TooManyRequests',
  503: 'ServiceUnavailable',
  504: 'Timeout',
};

/** Creates a Status. Its reason follows from the code unless one is passed; a 500 has none, as with a real API server. */
export function statusObject(code, message, more = {}) {
  const reason = more.reason ?? reasons[code];
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: more.continue === undefined ? {} : { continue: more.continue },
    status: 'Failure',
    message,
    ...(reason === undefined ? {} : { reason }),
    ...(more.details === undefined ? {} : { details: more.details }),
    code,
  };
}

/** Creates the Status "too old": the requested history is gone. */
export function expiredStatus(wanted, oldest) {
  return statusObject(410, `too old resource version: ${wanted} (${oldest})`);
}

/** Creates the Status "too new": the store does not know the requested version yet. */
export function tooLargeStatus(wanted, current) {
  return statusObject(504, `Timeout: Too large resource version: ${wanted}, current: ${current}`, {
    details: {
      causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
      retryAfterSeconds: 1,
    },
  });
}

/** Why the parameters of a watch are refused, in a real API server's words; undefined if they are valid. */
export function refuseWatch(query, streamingLists) {
  const resourceVersion = query.get('resourceVersion') ?? '';
  const initial = query.get('sendInitialEvents') ?? '';
  const match = query.get('resourceVersionMatch') ?? '';
  if (initial !== '' && !streamingLists) {
    const forbidden = 'is forbidden for watch unless the WatchList feature gate is enabled';
    return statusObject(
      422,
      `ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents ${forbidden}`,
    );
  }
  const invalid = 'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden:';
  if (initial !== '' && match !== 'NotOlderThan') {
    return statusObject(422, `${invalid} sendInitialEvents requires setting resourceVersionMatch to NotOlderThan`);
  }
  if (initial === '' && match !== '')
    return statusObject(422, `${invalid} resourceVersionMatch is forbidden for watch`);
  if (/^\d*$/.test(resourceVersion)) return undefined;
  // A real API server answers this with a Status without a reason.
  return statusObject(500, `strconv.ParseUint: parsing "${resourceVersion}": invalid syntax`);
}

export function isTrue(value) {
  return value === 'true' || value === '1';
}

/**
 * Cuts a connection with RST. A connection that is already shutting down cannot be reset: Node then reports an error and never closes it
 * (`uv_tcp_close_reset` refuses with EINVAL), so such a connection is closed normally.
 */
export function resetSocket(socket) {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}
