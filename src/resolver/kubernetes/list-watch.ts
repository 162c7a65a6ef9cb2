import { ResolveError } from '../../errors.js';
import type { Clock, Timer } from '../../runtime/clock.js';
import { between, type Rng } from '../../runtime/rng.js';
import type { ApiClient } from './api-client.js';
import { ApiFailure, eventFailure, failureOf, resolveErrorOf } from './api-failure.js';
import { Attempt } from './attempt.js';
import { type EndpointSlice, parseSlice, serviceNameLabel } from './endpoint-slice.js';
import { LineError, LineReader } from './line-reader.js';
import { listSlices, readFailure } from './slice-list.js';
import { fitsStore } from './slice-store.js';
import { parseWatchEvent } from './watch-event.js';
import { type Step, WatchRecovery } from './watch-recovery.js';

const LIST_TIMEOUT_MS = 60_000;
/** A first list that takes longer is told of: callers wait for it, and not as long as we do. */
const SILENT_LIST_MS = 3_000;
const HEADERS_TIMEOUT_MS = 30_000;
/** W4: the server ends a watch after this, drawn anew for each so that clients do not come back together. */
const WATCH_SECONDS = { min: 300, max: 600 };
/** How long a watch may run past its end. */
const WATCH_GRACE_MS = 30_000;
/** W10: a stream that has shown bookmarks and then nothing for this long is dead. */
const SILENCE_MS = 180_000;
/** W9: a stream that ends sooner, with nothing new, counts as a failure. */
const SHORT_WATCH_MS = 1_000;
/** How many short but useful streams in a row are followed by another at once. */
const SHORT_WATCHES_AT_ONCE = 3;
const SHORT_WATCH_PAUSE_MS = 200;
/** W17: a list is due this long after the last one, at the next end of a watch; with W4 that is within 30 minutes. */
const RELIST_MS = { min: 600_000, max: 1_200_000 };

/** What the loop tells. Nothing is called after `close`. */
export interface ListWatchListener {
  /** A complete list: slices that are not in it are gone (W3). */
  replaced(slices: readonly EndpointSlice[]): void;
  /** A slice was made or changed; undefined = it is gone. */
  changed(name: string, slice: EndpointSlice | undefined): void;
  /**
   * Not in touch with the API server. Once per kind of failure until `confirmed`; a refusal before the first list comes
   * at once, and again as permanent when it lasts.
   */
  failed(error: ResolveError): void;
  /** In touch again: what we have is the present state, or will be in a moment. */
  confirmed(): void;
  /** Something odd that was handled; once per kind until the next list. */
  warned(message: string, error?: unknown): void;
}

/** What a `ListWatch` is made of. */
export interface ListWatchOptions {
  readonly client: ApiClient;
  /** Rejects with a ResolveError where it cannot be found out. */
  readonly namespace: () => Promise<string>;
  readonly service: string;
  readonly clock: Clock;
  readonly rng: Rng;
  /** Whether a pause between two requests keeps the process alive. */
  readonly keepsProcessAlive: boolean;
  readonly listener: ListWatchListener;
}

/**
 * Keeps in step with the EndpointSlices of one Service: a list, then watches, each from the last version applied, for
 * ever. It never stops by itself and never takes anything back because of an error (W15).
 */
export class ListWatch {
  readonly #options: ListWatchOptions;
  readonly #recovery: WatchRecovery;
  /** The last version that was applied in full. */
  #version: string | undefined;
  /** The next list reads consistently: the version we have is of no use to the server. */
  #consistent = false;
  #relistDueMs = 0;
  /** Failures told since the last time we were in touch, by kind and label. */
  readonly #told = new Set<string>();
  readonly #warned = new Set<string>();
  #shortWatches = 0;
  #attempt: Attempt | undefined;
  #pauseTimer: Timer | undefined;
  #wake: (() => void) | undefined;
  #closed = false;

  constructor(options: ListWatchOptions) {
    this.#options = options;
    this.#recovery = new WatchRecovery(options.clock, options.rng);
  }

  start(): void {
    // #run catches everything; nothing to observe here.
    void this.#run();
  }

  /** Ends it at once, requests included. */
  close(): void {
    this.#closed = true;
    this.#attempt?.cancel();
    this.#pauseTimer?.cancel();
    this.#wake?.();
  }

  async #run(): Promise<void> {
    let step: Step = { next: 'list', pauseMs: 0 };
    while (!this.#closed) {
      if (step.pauseMs > 0) await this.#pause(step.pauseMs);
      if (this.#closed) return;
      try {
        step = step.next === 'list' ? await this.#list() : await this.#watch();
      } catch (error) {
        // Our own mistake, or a listener's. The loop goes on from a known state.
        this.#warn('loop', 'the watch of EndpointSlices met an unexpected error and lists again', error);
        step = { next: 'list', pauseMs: this.#recovery.pause() };
      }
    }
  }

  async #list(): Promise<Step> {
    const { client, service, clock, rng, listener } = this.#options;
    const attempt = this.#begin(LIST_TIMEOUT_MS, 'list');
    if (this.#version === undefined) attempt.after(SILENT_LIST_MS, () => void this.#tell('list', silentList));
    try {
      const path = await this.#path();
      const version = this.#consistent ? '' : (this.#version ?? '0');
      const list = await listSlices(client, path, this.#selector, version, attempt.signal);
      if (this.#closed) return again;
      const slices = list.items.map((item) => parseSlice(item, service)).filter((slice) => slice !== undefined);
      if (!fitsStore(slices)) throw new ApiFailure('protocol', 'size', 'the list has more EndpointSlices than we keep');
      this.#version = list.version;
      this.#consistent = false;
      this.#relistDueMs = clock.now() + between(rng, RELIST_MS.min, RELIST_MS.max);
      this.#recovery.listed();
      this.#warned.clear();
      listener.replaced(slices);
      this.#confirm();
      return { next: 'watch', pauseMs: 0 };
    } catch (error) {
      if (this.#closed) return again;
      const failure = failureOf(error);
      const outdated = failure.kind === 'expired' || failure.kind === 'too-large';
      if (outdated && !this.#consistent) {
        this.#consistent = true;
        return { next: 'list', pauseMs: 0 };
      }
      return await this.#recover('list', failure);
    } finally {
      attempt.end();
    }
  }

  async #watch(): Promise<Step> {
    const { client, clock, rng } = this.#options;
    const seconds = Math.floor(between(rng, WATCH_SECONDS.min, WATCH_SECONDS.max + 1));
    const startVersion = this.#version as string;
    const attempt = this.#begin(HEADERS_TIMEOUT_MS, 'watch');
    // Counted from here: a proxy may hold the headers back until the first event.
    const startedAtMs = clock.now();
    let opened = false;
    let failure: ApiFailure | undefined;
    try {
      const reply = await client.get({
        path: await this.#path(),
        query: {
          labelSelector: this.#selector,
          watch: 'true',
          resourceVersion: startVersion,
          allowWatchBookmarks: 'true',
          timeoutSeconds: String(seconds),
        },
        signal: attempt.signal,
      });
      if (reply.status !== 200) throw await readFailure(reply);
      opened = true;
      this.#recovery.opened();
      attempt.extend(seconds * 1_000 + WATCH_GRACE_MS);
      attempt.after(SHORT_WATCH_MS, () => this.#confirm());
      await this.#readEvents(reply.read.bind(reply), attempt);
    } catch (error) {
      failure = failureOf(error);
    } finally {
      attempt.end();
    }
    if (this.#closed) return again;
    if (!opened) return await this.#recover('watch', failure as ApiFailure);
    return await this.#afterStream(clock.now() - startedAtMs, this.#version !== startVersion, failure);
  }

  async #readEvents(read: (onData: (chunk: Uint8Array) => void) => Promise<void>, attempt: Attempt): Promise<void> {
    const reader = new LineReader((line) => {
      // Lines of one piece go on being read after an abort.
      attempt.signal.throwIfAborted();
      this.#apply(line, attempt);
    });
    await read((chunk) => {
      attempt.heard();
      reader.push(chunk);
    });
    if (reader.midLine) throw new LineError('the stream ended inside a line');
  }

  #apply(line: string, attempt: Attempt): void {
    const { listener, service } = this.#options;
    const event = parseWatchEvent(line);
    switch (event.type) {
      case 'error':
        throw eventFailure(event.status);
      case 'other':
        this.#warn('other', `a watch of EndpointSlices sent an ${event.what}; ignored`);
        return;
      case 'bookmark':
        attempt.expectBytesEvery(SILENCE_MS);
        break;
      case 'delete':
        listener.changed(event.name, undefined);
        break;
      case 'put':
        listener.changed(event.name, parseSlice(event.object, service));
        break;
    }
    // After the event is applied, never before (W5).
    if (event.version !== undefined) this.#version = event.version;
    this.#recovery.progressed();
    this.#confirm();
  }

  /** What follows a stream that had begun. */
  async #afterStream(livedMs: number, progressed: boolean, failure: ApiFailure | undefined): Promise<Step> {
    const { clock, rng } = this.#options;
    if (livedMs >= SHORT_WATCH_MS) {
      this.#shortWatches = 0;
      this.#recovery.lasted();
    }
    // The server said why; everything else is the end of a connection, however it came about.
    const told =
      failure !== undefined && failure.kind !== 'network' && failure.kind !== 'protocol' && failure.kind !== 'timeout';
    if (told) return await this.#recover('watch', failure);
    if (failure?.kind === 'protocol')
      this.#warn('line', `a watch of EndpointSlices was dropped: ${failure.message}`, failure);
    if (livedMs < SHORT_WATCH_MS) {
      const empty = failure ?? new ApiFailure('network', 'short', 'the server ends every watch at once');
      if (!progressed) return await this.#recover('watch', empty);
      this.#shortWatches += 1;
      if (this.#shortWatches > SHORT_WATCHES_AT_ONCE) {
        return { next: 'watch', pauseMs: SHORT_WATCH_PAUSE_MS * (1 + rng.next()) };
      }
    }
    return { next: clock.now() >= this.#relistDueMs ? 'list' : 'watch', pauseMs: 0 };
  }

  /** Tells of a failure if it is news; returns what follows it. */
  async #recover(verb: 'list' | 'watch', failure: ApiFailure): Promise<Step> {
    const remedy = this.#recovery.after(verb, failure);
    if (remedy.isOutdated) this.#consistent = true;
    if (remedy.isNews) await this.#tell(verb, failure);
    // A caller without a set may try another way instead of waiting for the confirmation.
    else if (remedy.isPassing && this.#version === undefined) await this.#tell(verb, failure, 'passing');
    return remedy;
  }

  async #tell(verb: 'list' | 'watch', failure: ApiFailure, how: 'lasting' | 'passing' = 'lasting'): Promise<void> {
    const news = `${failure.kind} ${failure.label} ${how}`;
    if (this.#told.has(news)) return;
    this.#told.add(news);
    const namespace = await this.#options.namespace().catch(() => 'of this pod');
    const { client, listener } = this.#options;
    if (this.#closed) return;
    const error = resolveErrorOf(failure, verb, namespace, client.server);
    listener.failed(how === 'passing' ? notPermanent(error) : error);
  }

  #confirm(): void {
    if (this.#closed) return;
    this.#told.clear();
    this.#options.listener.confirmed();
  }

  #warn(kind: string, message: string, error?: unknown): void {
    if (this.#closed || this.#warned.has(kind)) return;
    this.#warned.add(kind);
    this.#options.listener.warned(message, error);
  }

  get #selector(): string {
    return `${serviceNameLabel}=${this.#options.service}`;
  }

  async #path(): Promise<string> {
    const namespace = encodeURIComponent(await this.#options.namespace());
    return `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;
  }

  #begin(timeoutMs: number, what: string): Attempt {
    const attempt = new Attempt(this.#options.clock, timeoutMs, what);
    this.#attempt = attempt;
    return attempt;
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      this.#pauseTimer = this.#options.clock.timer(resolve, ms);
      if (this.#options.keepsProcessAlive) this.#pauseTimer.ref();
    });
  }
}

/** The same, which may be over in a moment. */
function notPermanent({ message, cause }: ResolveError): ResolveError {
  return new ResolveError(message, { code: 'EVENKEEL_FORBIDDEN', cause });
}

const silentList = new ApiFailure('timeout', 'silent', `no answer for ${SILENT_LIST_MS / 1_000} s; still waiting`);

/** What follows `close`: nobody looks at it. */
const again: Step = { next: 'list', pauseMs: 0 };
