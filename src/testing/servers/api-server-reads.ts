import type { Clock } from '../../runtime/clock.js';
import type { Rng } from '../../runtime/rng.js';
import type { AccessRequest } from './api-server-access.js';
import { answerList } from './api-server-list.js';
import { resourceTypes } from './api-server-objects.js';
import type { Reply } from './api-server-reply.js';
import { isTrue, refuseWatch } from './api-server-route.js';
import { type LabelMatcher, parseLabelSelector } from './api-server-selector.js';
import { expiredStatus, type StatusObject, statusObject, tooLargeStatus } from './api-server-status.js';
import type { ObjectStore, StoreEvent } from './api-server-store.js';
import { bookmarkLine, eventLine, type Mangle, WatchStream } from './api-server-watch.js';

/** How long a list waits for a version that does not exist yet, in ms. */
const EARLY_LIST_MS = 3_000;
/** How long a consistent list hangs while the store is unavailable, in ms. */
const STORE_TIMEOUT_MS = 60_000;

/** What `StoreReads` needs. */
export interface StoreReadsOptions {
  readonly clock: Clock;
  readonly rng: Rng;
  readonly bookmarkIntervalMs: number;
  /** Whether `limit` also applies to lists served from the cache. */
  readonly pagesFromCache: boolean;
  /** Whether a watch may begin with the current state. */
  readonly streamingLists: boolean;
}

/** Serves the store's contents as a real API server does: get, list and watch. */
export class StoreReads {
  readonly watches: Set<WatchStream> = new Set();
  /** Rewrites every line of every watch; undefined leaves lines as they are. */
  mangle: Mangle | undefined;
  /** The number of the current epoch of continue tokens: tokens from earlier epochs have expired. */
  epoch: number = 0;
  readonly #store: ObjectStore;
  readonly #options: StoreReadsOptions;
  #available = true;
  /** The version that bookmarks carry while the store is unavailable. */
  #frozenVersion: number | undefined;

  constructor(store: ObjectStore, options: StoreReadsOptions) {
    this.#store = store;
    this.#options = options;
    store.subscribe((event) => this.#broadcast(event));
  }

  /** Whether the store behind the API server is available. */
  get available(): boolean {
    return this.#available;
  }

  /** Makes the store available or unavailable. While it is unavailable, bookmarks carry the version it had when it became so. */
  setAvailable(available: boolean): void {
    this.#available = available;
    this.#frozenVersion = available ? undefined : this.#store.revision;
  }

  answer(verb: 'get' | 'list' | 'watch', access: AccessRequest, query: URLSearchParams, reply: Reply): void {
    if (verb === 'get') this.#get(access, reply);
    else this.#collection(verb, access, query, reply);
  }

  /** Opens a watch that ends at once with an ERROR event. */
  answerError(access: AccessRequest, query: URLSearchParams, status: StatusObject, reply: Reply): void {
    this.#openWatch(access, query, () => true, reply).error(status);
  }

  #get(access: AccessRequest, reply: Reply): void {
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

  #collection(verb: 'list' | 'watch', access: AccessRequest, query: URLSearchParams, reply: Reply): void {
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

  #list(access: AccessRequest, query: URLSearchParams, matches: LabelMatcher, reply: Reply): void {
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

  #watch(access: AccessRequest, query: URLSearchParams, matches: LabelMatcher, reply: Reply): void {
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

  #openWatch(access: AccessRequest, query: URLSearchParams, matches: LabelMatcher, reply: Reply): WatchStream {
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

  #broadcast(event: StoreEvent): void {
    for (const watch of this.watches) watch.deliver(event);
  }
}
