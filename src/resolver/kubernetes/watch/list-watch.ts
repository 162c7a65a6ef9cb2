import type { Timer } from '../../../runtime/clock.js';
import { between } from '../../../runtime/rng.js';
import type { ApiReply } from '../api/api-client.js';
import { ApiFailure, failureOf } from '../api/api-failure.js';
import { LineError, LineReader } from '../api/line-reader.js';
import { readFailure } from '../api/read-json.js';
import { type EndpointSlice, parseSlice, serviceNameLabel } from '../slices/endpoint-slice.js';
import { fitsStore } from '../slices/slice-store.js';
import { WatchRequest } from './attempt.js';
import type { ListWatchOptions } from './list-watch-options.js';
import { listSlices } from './slice-list.js';
import { StreamEvents } from './stream-events.js';
import { WatchNews } from './watch-news.js';
import { type Step, WatchRecovery } from './watch-recovery.js';

const LIST_TIMEOUT_MS = 60_000;
/**
 * A first list that takes longer than this, in ms, is reported: callers wait for the list, and not as long as the list-and-watch loop does.
 */
const SILENT_LIST_MS = 3_000;
/**
 * How long a streaming list may be silent before its state is complete, in ms; next to it, how long until one is tried again after a
 * failure.
 */
const STREAM_SILENCE_MS = 5_000;
const STREAM_AGAIN_MS = 3_600_000;
const HEADERS_TIMEOUT_MS = 30_000;
/** The API server ends a watch after this time, in seconds, drawn for each watch so that clients do not come back together. */
const WATCH_SECONDS = { min: 300, max: 600 };
/** How long a watch may run past the end that was agreed with the API server, in ms. */
const WATCH_GRACE_MS = 30_000;
/** A watch whose stream has shown bookmarks and then nothing for this long, in ms, is dead. */
const SILENCE_MS = 180_000;
/** A watch that ends sooner than this, in ms, without news counts as a failure. */
const SHORT_WATCH_MS = 1_000;
/** How many short but useful watches in a row are followed by the next at once. */
const SHORT_WATCHES_AT_ONCE = 3;
const SHORT_WATCH_PAUSE_MS = 200;
/** Requests that many clients bring forward at the same moment are spread over this time, in ms. */
const HURRY_SPREAD_MS = 1_000;
/**
 * A new list is due this long after the last one, in ms, at the next end of a watch; with the length of watches that is within 30 minutes.
 */
const RELIST_MS = { min: 600_000, max: 1_200_000 };

/**
 * Keeps in step with the EndpointSlices of one Service, forever: a list, then watches, each from the last version applied. The loop never
 * stops by itself and never takes anything back because of an error.
 */
export class ListWatch {
  readonly #options: ListWatchOptions;
  readonly #recovery: WatchRecovery;
  readonly #news: WatchNews;
  readonly #mayStream: boolean;
  #version: string | undefined;
  /** Whether the next list must read consistently: the server cannot use the version we have. */
  #consistent = false;
  #relistDueMs = 0;
  /** Until this time on the clock, in ms, lists are requested as plain lists, not as streaming ones. */
  #streamDueMs = Number.NEGATIVE_INFINITY;
  #shortWatches = 0;
  #attempt: WatchRequest | undefined;
  #pausing: Pausing | undefined;
  #closed = false;

  constructor(options: ListWatchOptions) {
    this.#options = options;
    this.#recovery = new WatchRecovery(options.clock, options.rng);
    this.#news = new WatchNews(options);
    this.#mayStream = options.streamingLists;
  }

  start(): void {
    // `#run` catches everything, so its promise needs no handler.
    void this.#run();
  }

  /**
   * A connection to an endpoint failed, so the set may be outdated: a pause of the loop ends sooner, but no sooner than a second after it
   * began, or several after repeated failures: a fleet of clients must not hold down a server that has just started.
   */
  hurry(): void {
    const pause = this.#pausing;
    if (this.#closed || pause === undefined || pause.isHurried) return;
    pause.isHurried = true;
    const { clock, rng } = this.#options;
    // Clients lose a node's pods at the same moment, so their requests are spread; some clients have paused for long already.
    const dueMs = Math.max(pause.hurriedDueMs, clock.now() + HURRY_SPREAD_MS * rng.next());
    if (dueMs < pause.dueMs) this.#pauseUntil(dueMs);
  }

  /** Ends the list-and-watch loop at once, including its requests. */
  close(): void {
    this.#closed = true;
    this.#news.close();
    this.#attempt?.cancel();
    this.#pausing?.timer?.cancel();
    this.#pausing?.end();
  }

  async #run(): Promise<void> {
    let step: Step = { next: this.#version === undefined ? 'list' : 'watch', pauseMs: 0 };
    while (!this.#closed) {
      if (step.pauseMs > 0) await this.#pause(step);
      if (this.#closed) return;
      try {
        step = step.next === 'list' ? await this.#list() : await this.#watch();
      } catch (error) {
        // The error is our own, or a listener's. The loop continues from a known state.
        this.#news.warned('loop', 'the watch of EndpointSlices met an unexpected error and lists again', error);
        step = { next: 'list', pauseMs: this.#recovery.pause() };
      }
    }
  }

  async #list(): Promise<Step> {
    const { client, service, clock } = this.#options;
    if (this.#mayStream && !this.#consistent && clock.now() >= this.#streamDueMs) return await this.#watch(true);
    const attempt = this.#beginList(LIST_TIMEOUT_MS);
    try {
      const path = await this.#path();
      const version = this.#consistent ? '' : (this.#version ?? '0');
      const list = await listSlices(client, path, this.#selector, version, attempt.signal);
      if (this.#closed) return again;
      const slices = list.items.map((item) => parseSlice(item, service)).filter((slice) => slice !== undefined);
      if (!fitsStore(slices)) throw new ApiFailure('protocol', 'size', 'the list has more EndpointSlices than we keep');
      this.#replace(slices, list.version);
      this.#news.confirmed();
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

  #replace(slices: readonly EndpointSlice[], version: string | undefined): void {
    const { listener } = this.#options;
    this.#version = version;
    this.#consistent = false;
    this.#relistDueMs = this.#drawRelist();
    this.#recovery.listed();
    this.#news.listed();
    listener.replaced(slices);
  }

  #drawRelist(): number {
    const { clock, rng } = this.#options;
    return clock.now() + between(rng, RELIST_MS.min, RELIST_MS.max);
  }

  /** Makes a watch from the last version applied, or one that starts with the whole state and so is a list too. */
  async #watch(isStreamingList = false): Promise<Step> {
    const { client, clock, rng, service } = this.#options;
    const seconds = Math.floor(between(rng, WATCH_SECONDS.min, WATCH_SECONDS.max + 1));
    const startVersion = this.#version;
    const attempt = isStreamingList ? this.#beginList(LIST_TIMEOUT_MS) : this.#begin(HEADERS_TIMEOUT_MS, 'watch');
    // The life of a watch is measured from here, because a proxy may hold the headers back until the first event.
    const startedAtMs = clock.now();
    const goesOn = (): void => {
      this.#recovery.opened();
      attempt.extend(seconds * 1_000 + WATCH_GRACE_MS);
    };
    if (isStreamingList) {
      attempt.received();
      attempt.expectBytesEvery(STREAM_SILENCE_MS);
    }
    const events = new StreamEvents(service, isStreamingList, {
      replaced: (slices, version) => {
        goesOn();
        attempt.expectBytesEvery(SILENCE_MS);
        this.#replace(slices, version);
      },
      changed: (name, slice) => this.#options.listener.changed(name, slice),
      bookmarked: () => attempt.expectBytesEvery(SILENCE_MS),
      ignored: (what) => this.#news.warned('other', `a watch of EndpointSlices sent an ${what}; ignored`),
      // The version is stored after its event is applied, never before.
      applied: (version) => {
        if (version !== undefined) this.#version = version;
        this.#recovery.progressed();
        this.#news.confirmed();
      },
    });
    let opened = false;
    let failure: ApiFailure | undefined;
    try {
      const reply = await client.get({
        path: await this.#path(),
        query: {
          labelSelector: this.#selector,
          watch: 'true',
          resourceVersion: startVersion ?? '0',
          ...(isStreamingList && { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan' }),
          allowWatchBookmarks: 'true',
          timeoutSeconds: String(seconds),
        },
        signal: attempt.signal,
      });
      if (reply.status !== 200) throw await readFailure(reply);
      opened = true;
      if (!isStreamingList) {
        goesOn();
        attempt.after(SHORT_WATCH_MS, () => this.#news.confirmed());
      }
      await readLines(reply, attempt, (line) => events.apply(line));
    } catch (error) {
      failure = failureOf(error);
    } finally {
      attempt.end();
    }
    if (this.#closed) return again;
    if (!events.isComplete) return await this.#withoutStream(failure);
    if (!opened) return await this.#recover('watch', failure as ApiFailure);
    return await this.#afterStream(clock.now() - startedAtMs, this.#version !== startVersion, failure);
  }

  /** A streaming list failed: older servers refuse it, others do not know it and never report that it is complete. */
  async #withoutStream(failure: ApiFailure | undefined): Promise<Step> {
    this.#streamDueMs = this.#options.clock.now() + STREAM_AGAIN_MS;
    // A server that asks for a pause gets it; after any other failure, a plain list shows what is wrong.
    if (failure?.kind === 'throttled') return await this.#recover('list', failure);
    return { next: 'list', pauseMs: 0 };
  }

  /** Decides what follows the end of a watch's stream that had started. */
  async #afterStream(livedMs: number, progressed: boolean, failure: ApiFailure | undefined): Promise<Step> {
    const { clock, rng } = this.#options;
    if (livedMs >= SHORT_WATCH_MS) {
      this.#shortWatches = 0;
      this.#recovery.lasted();
    }
    // If the server gave a reason for the end of the stream, it counts; everything else is the end of a connection, however it happened.
    const hasReason =
      failure !== undefined && failure.kind !== 'network' && failure.kind !== 'protocol' && failure.kind !== 'timeout';
    if (hasReason) return await this.#recover('watch', failure);
    if (failure?.kind === 'protocol')
      this.#news.warned('line', `a watch of EndpointSlices was dropped: ${failure.message}`, failure);
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

  /** Reports a failure of a list or a watch if it is news; returns the next step. */
  async #recover(verb: 'list' | 'watch', failure: ApiFailure): Promise<Step> {
    const remedy = this.#recovery.after(verb, failure);
    if (remedy.isOutdated) this.#consistent = true;
    if (remedy.isNews) await this.#news.failed(verb, failure);
    // If no set is known yet, the listener may try another way to find endpoints instead of waiting until the failure is confirmed.
    else if (remedy.isPassing && this.#version === undefined) await this.#news.failed(verb, failure, 'passing');
    return remedy;
  }

  get #selector(): string {
    return `${serviceNameLabel}=${this.#options.service}`;
  }

  async #path(): Promise<string> {
    const namespace = encodeURIComponent(await this.#options.namespace());
    return `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;
  }

  #beginList(timeoutMs: number): WatchRequest {
    const attempt = this.#begin(timeoutMs, 'list');
    if (this.#version !== undefined) return attempt;
    attempt.after(SILENT_LIST_MS, () => {
      // A streaming list may have been answered meanwhile; it continues.
      if (this.#version === undefined) void this.#news.failed('list', silentList);
    });
    return attempt;
  }

  #begin(timeoutMs: number, what: string): WatchRequest {
    const attempt = new WatchRequest(this.#options.clock, timeoutMs, what);
    this.#attempt = attempt;
    return attempt;
  }

  async #pause({ pauseMs, hurriedMs = pauseMs }: Step): Promise<void> {
    const nowMs = this.#options.clock.now();
    await new Promise<void>((resolve) => {
      this.#pausing = {
        end: resolve,
        dueMs: nowMs + pauseMs,
        hurriedDueMs: nowMs + hurriedMs,
        isHurried: false,
        timer: undefined,
      };
      this.#pauseUntil(nowMs + pauseMs);
    });
    this.#pausing?.timer?.cancel();
    this.#pausing = undefined;
  }

  #pauseUntil(dueMs: number): void {
    const { clock, keepsProcessAlive } = this.#options;
    const pausing = this.#pausing as Pausing;
    pausing.timer?.cancel();
    pausing.timer = clock.timer(pausing.end, Math.max(0, dueMs - clock.now()));
    if (keepsProcessAlive) pausing.timer.ref();
  }
}

/** A pause of the list-and-watch loop, which can be cut short. */
interface Pausing {
  readonly end: () => void;
  readonly dueMs: number;
  /** When the pause may end if the set seems outdated, on the clock in ms. */
  readonly hurriedDueMs: number;
  isHurried: boolean;
  timer: Timer | undefined;
}

const silentList = new ApiFailure('timeout', 'silent', `no answer for ${SILENT_LIST_MS / 1_000} s; still waiting`);

/** The step of the loop after `close`, which is never taken. */
const again: Step = { next: 'list', pauseMs: 0 };

async function readLines(reply: ApiReply, attempt: WatchRequest, apply: (line: string) => void): Promise<void> {
  const reader = new LineReader((line) => {
    // The lines of a chunk would still be read after an abort.
    attempt.signal.throwIfAborted();
    apply(line);
  });
  await reply.read((chunk) => {
    attempt.received();
    reader.push(chunk);
  });
  if (reader.midLine) throw new LineError('the stream ended inside a line');
}
