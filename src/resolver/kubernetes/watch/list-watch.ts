import { ResolveError } from '../../../errors.js';
import type { Timer } from '../../../runtime/clock.js';
import { between } from '../../../runtime/rng.js';
import type { ApiReply } from '../api/api-client.js';
import { ApiFailure, failureOf, resolveErrorOf } from '../api/api-failure.js';
import { LineError, LineReader } from '../api/line-reader.js';
import { readFailure } from '../api/read-json.js';
import { type EndpointSlice, parseSlice, serviceNameLabel } from '../slices/endpoint-slice.js';
import { fitsStore } from '../slices/slice-store.js';
import { WatchRequest } from './attempt.js';
import type { ListWatchOptions } from './list-watch-options.js';
import { listSlices } from './slice-list.js';
import { StreamEvents } from './stream-events.js';
import { type Step, WatchRecovery } from './watch-recovery.js';

const LIST_TIMEOUT_MS = 60_000;
/**
 * If a list takes longer than this, in ms, that is reported as a failure if it is the first, or follows a watch that was doubted. Requests
 * are waiting for it or fail, and their callers have less patience than the list has time.
 */
const SILENT_LIST_MS = 3_000;
/**
 * How long a streaming list may be silent before it is complete, in ms; and, in the next line, how long no other streaming list is tried
 * after one that failed.
 */
const STREAM_SILENCE_MS = 5_000;
const STREAM_AGAIN_MS = 3_600_000;
const HEADERS_TIMEOUT_MS = 30_000;
/**
 * How long a watch lasts until the API server ends it, in seconds. The number is drawn for each watch, so that clients do not all come
 * back at the same time.
 */
const WATCH_SECONDS = { min: 300, max: 600 };
/** How long a watch may last beyond the time that was agreed with the API server, in ms. */
const WATCH_GRACE_MS = 30_000;
/**
 * After this long without any data, in ms, a watch counts as dead. This applies only once the server has sent bookmarks, which show that
 * it sends something regularly.
 */
const SILENCE_MS = 180_000;
/** A watch that ends sooner than this without any event, in ms, counts as a failure. */
const SHORT_WATCH_MS = 1_000;
/**
 * After this many watches in a row that brought nothing, because they ended at once or with a line that cannot be used, the next request is
 * a list: the server may have no events for the version that was applied last, and no watch from it would ever bring any.
 */
const EMPTY_WATCHES = 2;
/** After this many short watches in a row that did bring events, there is a pause before the next one. */
const SHORT_WATCHES_AT_ONCE = 3;
const SHORT_WATCH_PAUSE_MS = 200;
/** If endpoints fail, many clients end their pauses early at the same moment. Their requests are spread over this time, in ms. */
const HURRY_SPREAD_MS = 1_000;
/**
 * If a watch has been silent for this long, in ms, while connections to endpoints fail, it is given up for a list: a load balancer between
 * may have forgotten it.
 */
const DOUBTED_SILENCE_MS = 5_000;
/** When a node dies, all clients lose its pods together. Their lists are spread over this time, in ms. */
const DOUBT_SPREAD_MS = 10_000;
/** The same if a client has lost all of its endpoints, so that every call fails meanwhile. */
const DOUBT_ALL_SPREAD_MS = 2_000;
/** The shortest time between two watches that are given up in this way, in ms. */
const DOUBT_AGAIN_MS = 60_000;
/**
 * How long after a list the next one is due, in ms. It is made when the current watch ends, or in place of the next attempt to open one, so
 * a list is never older than 30 minutes.
 */
const RELIST_MS = { min: 600_000, max: 1_200_000 };

/**
 * Keeps in step with the EndpointSlices of one Service: requests a list, then one watch after another, each from the version that was
 * applied last. The loop only ends when it is closed. An error never makes it forget slices.
 */
export class ListWatch {
  readonly #options: ListWatchOptions;
  readonly #recovery: WatchRecovery;
  /** The kinds of failures reported since the loop was last in touch with the API server, whether a list or a watch met them. */
  readonly #failures = new Set<string>();
  /** Whether the failure that was reported last goes away only when somebody solves the problem, such as a missing permission. */
  #isRefused = false;
  /** The kinds of warnings that were given since the last list. */
  readonly #warned = new Set<string>();
  readonly #mayStream: boolean;
  #version: string | undefined;
  /**
   * Whether the next list must be read from the API server's database rather than its cache, because the server cannot use the version
   * that was applied last.
   */
  #consistent = false;
  #relistDueMs = 0;
  /** Until this time on the clock, in ms, lists are requested as plain lists and not as streaming ones. */
  #streamDueMs = Number.NEGATIVE_INFINITY;
  #shortWatches = 0;
  #emptyWatches = 0;
  /** When the last list was complete, on the clock in ms. */
  #listedAtMs = Number.NEGATIVE_INFINITY;
  /** The request of the watch that is open. */
  #openWatch: WatchRequest | undefined;
  /** The list that is planned because the watch is doubted. */
  #doubt: { readonly timer: Timer; readonly spreadMs: number } | undefined;
  #doubtedAtMs = Number.NEGATIVE_INFINITY;
  #attempt: WatchRequest | undefined;
  #pausing: Pausing | undefined;
  #closed = false;

  constructor(options: ListWatchOptions) {
    this.#options = options;
    this.#recovery = new WatchRecovery(options.clock, options.rng);
    this.#mayStream = options.streamingLists;
  }

  start(): void {
    // `#run` never rejects, because it catches every error.
    void this.#run();
  }

  /**
   * Ends the current pause of the loop early, because a connection to an endpoint failed and the set may be outdated. A pause still lasts
   * at least a second, or several seconds after repeated failures: many clients do this at once, and must not overload an API server that
   * has just started.
   *
   * @param failingSinceMs Since when so many connections have failed that the set itself is in doubt, on the clock in ms. A watch that has
   * said nothing for a while is then given up for a list, once for each time that connections begin to fail.
   * @param reachesNone Whether connections fail to all endpoints.
   */
  hurry(failingSinceMs?: number, reachesNone = false): void {
    if (failingSinceMs !== undefined)
      this.#doubtWatch(failingSinceMs, reachesNone ? DOUBT_ALL_SPREAD_MS : DOUBT_SPREAD_MS);
    const pause = this.#pausing;
    if (this.#closed || pause === undefined || pause.isHurried) return;
    pause.isHurried = true;
    const { clock, rng } = this.#options;
    // When a node dies, all clients lose its pods at the same moment, so their requests are spread over a second.
    const dueMs = Math.max(pause.hurriedDueMs, clock.now() + HURRY_SPREAD_MS * rng.next());
    if (dueMs < pause.dueMs) this.#pauseUntil(dueMs);
  }

  /** Ends the loop at once, and aborts its request. */
  close(): void {
    this.#closed = true;
    this.#doubt?.timer.cancel();
    this.#attempt?.cancel();
    this.#pausing?.timer?.cancel();
    this.#pausing?.end();
  }

  #doubtWatch(failingSinceMs: number, spreadMs: number): void {
    const watch = this.#openWatch;
    if (watch === undefined || this.#listedAtMs >= failingSinceMs) return;
    // Drawn again only if all endpoints are lost by now: repeated draws would bring all clients close to the minimum.
    if (this.#doubt !== undefined && this.#doubt.spreadMs <= spreadMs) return;
    const { clock, rng } = this.#options;
    const nowMs = clock.now();
    if (nowMs - watch.receivedAtMs < DOUBTED_SILENCE_MS) return;
    const dueMs = Math.max(nowMs + spreadMs * rng.next(), this.#doubtedAtMs + DOUBT_AGAIN_MS);
    this.#doubt?.timer.cancel();
    const timer = clock.timer(() => {
      this.#doubt = undefined;
      if (this.#openWatch !== watch || watch.receivedAtMs > nowMs) return;
      this.#doubtedAtMs = clock.now();
      this.#relistDueMs = clock.now();
      watch.cut('the watch says nothing while connections to endpoints fail');
    }, dueMs - nowMs);
    this.#doubt = { timer, spreadMs };
  }

  async #run(): Promise<void> {
    let step: Step = { next: this.#version === undefined ? 'list' : 'watch', pauseMs: 0 };
    while (!this.#closed) {
      if (step.pauseMs > 0) await this.#pause(step);
      if (this.#closed) return;
      try {
        step = step.next === 'list' ? await this.#list() : await this.#watch();
      } catch (error) {
        // This is an error in evenkeel or in a listener, not one of the API server. A new list brings the loop back to a known state.
        this.#warn('loop', 'the watch of EndpointSlices met an unexpected error and lists again', error);
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
      this.#confirm();
      return { next: 'watch', pauseMs: 0 };
    } catch (error) {
      if (this.#closed) return again;
      const failure = this.#failureOf(error);
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
    this.#listedAtMs = this.#options.clock.now();
    this.#emptyWatches = 0;
    this.#recovery.listed();
    this.#warned.clear();
    listener.replaced(slices);
  }

  #drawRelist(): number {
    const { clock, rng } = this.#options;
    return clock.now() + between(rng, RELIST_MS.min, RELIST_MS.max);
  }

  /**
   * Runs a watch until it ends. A watch starts from the version that was applied last; a streaming list starts with the whole state
   * instead.
   */
  async #watch(isStreamingList = false): Promise<Step> {
    const { client, clock, rng, service } = this.#options;
    const seconds = Math.floor(between(rng, WATCH_SECONDS.min, WATCH_SECONDS.max + 1));
    const startVersion = this.#version;
    const attempt = isStreamingList ? this.#beginList(LIST_TIMEOUT_MS) : this.#begin(HEADERS_TIMEOUT_MS, 'watch');
    // The duration of a watch is measured from the request on, because a proxy may delay the headers until the first event.
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
      ignored: (what) => this.#warn('other', `a watch of EndpointSlices sent an ${what}; ignored`),
      // The version is stored only after its event was applied, so that no event is lost if applying it fails.
      applied: (version) => {
        if (version !== undefined) this.#version = version;
        this.#recovery.progressed();
        this.#confirm();
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
      attempt.received();
      this.#openWatch = attempt;
      if (!isStreamingList) {
        goesOn();
        attempt.after(SHORT_WATCH_MS, () => this.#confirm());
      }
      await readLines(reply, attempt, (line) => events.apply(line));
    } catch (error) {
      failure = this.#failureOf(error);
    } finally {
      attempt.end();
      this.#openWatch = undefined;
    }
    if (this.#closed) return again;
    if (!events.isComplete) return await this.#withoutStream(failure);
    if (!opened) return await this.#recover('watch', failure as ApiFailure);
    return await this.#afterStream(clock.now() - startedAtMs, this.#version !== startVersion, failure);
  }

  /**
   * Chooses the next step after a streaming list failed. Some older API servers refuse such a list; others ignore the parameter, and
   * never say that the list is complete.
   */
  async #withoutStream(failure: ApiFailure | undefined): Promise<Step> {
    this.#streamDueMs = this.#options.clock.now() + STREAM_AGAIN_MS;
    // If the server asked for a pause, it gets one. After any other failure a plain list follows at once, which shows what is wrong.
    if (failure?.kind === 'throttled') return await this.#recover('list', failure);
    return { next: 'list', pauseMs: 0 };
  }

  /** Chooses the next step after the end of a watch that had begun. */
  async #afterStream(livedMs: number, progressed: boolean, failure: ApiFailure | undefined): Promise<Step> {
    const isShort = livedMs < SHORT_WATCH_MS;
    if (!isShort) {
      this.#shortWatches = 0;
      this.#recovery.lasted();
    }
    // If the server gave a reason for ending the stream, that decides. Everything else counts as a connection that ended, no matter how.
    const hasReason =
      failure !== undefined && failure.kind !== 'network' && failure.kind !== 'protocol' && failure.kind !== 'timeout';
    if (hasReason) return await this.#recover('watch', failure);
    const isEmpty = !progressed && (isShort || failure?.kind === 'protocol');
    this.#emptyWatches = isEmpty ? this.#emptyWatches + 1 : 0;
    // A list that is due takes the place of the next watch, on whatever path that comes.
    if (this.#emptyWatches >= EMPTY_WATCHES) this.#relistDueMs = this.#options.clock.now();
    if (failure?.kind === 'protocol')
      this.#warn('line', `a watch of EndpointSlices was dropped: ${failure.message}`, failure);
    if (isShort) {
      const empty = failure ?? new ApiFailure('network', 'short', 'the server ends every watch at once');
      if (!progressed) return await this.#recover('watch', empty);
      this.#shortWatches += 1;
      if (this.#shortWatches > SHORT_WATCHES_AT_ONCE) {
        return { next: this.#watchOrList, pauseMs: SHORT_WATCH_PAUSE_MS * (1 + this.#options.rng.next()) };
      }
    }
    return { next: this.#watchOrList, pauseMs: 0 };
  }

  /** What follows where a watch would: a list if one is due (W17). */
  get #watchOrList(): 'watch' | 'list' {
    return this.#options.clock.now() >= this.#relistDueMs ? 'list' : 'watch';
  }

  #failureOf(error: unknown): ApiFailure {
    const failure = failureOf(error);
    // The server may be well and only the way of this connection dead, which idle ones to the same server would share.
    if (failure.kind === 'timeout') this.#options.client.dropIdle();
    return failure;
  }

  /** Chooses the next step after a failure of a list or a watch, and reports the failure if it has not been reported yet. */
  async #recover(verb: 'list' | 'watch', failure: ApiFailure): Promise<Step> {
    const remedy = this.#recovery.after(verb, failure);
    if (remedy.isOutdated) this.#consistent = true;
    const error = await this.#errorOf(verb, failure);
    if (remedy.isNews) this.#fail(failure, error);
    // No set is known yet. The failure is reported although it may pass, so that the listener can try to find endpoints in another way.
    else if (remedy.isPassing && this.#version === undefined) this.#fail(failure, notPermanent(error));
    return remedy.next === 'watch' ? { ...remedy, next: this.#watchOrList } : remedy;
  }

  get #selector(): string {
    return `${serviceNameLabel}=${this.#options.service}`;
  }

  async #path(): Promise<string> {
    const namespace = encodeURIComponent(await this.#options.namespace());
    return `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;
  }

  /** Whether there is no set yet, or no list since the last doubt about it. */
  get #isInDoubt(): boolean {
    return this.#version === undefined || this.#doubtedAtMs > this.#listedAtMs;
  }

  #beginList(timeoutMs: number): WatchRequest {
    const attempt = this.#begin(timeoutMs, 'list');
    if (!this.#isInDoubt) return attempt;
    attempt.after(SILENT_LIST_MS, () => void this.#reportSilence());
    return attempt;
  }

  async #reportSilence(): Promise<void> {
    const error = await this.#errorOf('list', silentList);
    // There is nothing to report if a list has become complete meanwhile.
    if (this.#isInDoubt) this.#fail(silentList, error);
  }

  async #errorOf(verb: 'list' | 'watch', failure: ApiFailure): Promise<ResolveError> {
    const { client, namespace } = this.#options;
    return resolveErrorOf(failure, verb, await namespace().catch(() => 'of this pod'), client.server);
  }

  #fail({ kind, label }: ApiFailure, error: ResolveError): void {
    const { permanent } = error;
    // An outage after a refusal, or a refusal after an outage, is reported again, because listeners react to a refusal that lasts.
    if (permanent !== this.#isRefused) this.#failures.clear();
    this.#isRefused = permanent;
    const failure = `${kind} ${label} ${permanent}`;
    if (this.#closed || this.#failures.has(failure)) return;
    this.#failures.add(failure);
    this.#options.listener.failed(error);
  }

  #confirm(): void {
    this.#failures.clear();
    this.#isRefused = false;
    if (!this.#closed) this.#options.listener.confirmed();
  }

  /** Warns of something unexpected, once for each kind until the next list. */
  #warn(kind: string, message: string, error?: unknown): void {
    if (this.#closed || this.#warned.has(kind)) return;
    this.#warned.add(kind);
    this.#options.listener.warned(message, error);
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
    const { clock } = this.#options;
    const pausing = this.#pausing as Pausing;
    pausing.timer?.cancel();
    pausing.timer = clock.timer(pausing.end, Math.max(0, dueMs - clock.now()));
  }
}

/** A pause of the list-and-watch loop, which can be cut short. */
interface Pausing {
  readonly end: () => void;
  readonly dueMs: number;
  /** When the pause may end at the earliest if the set seems outdated, on the clock in ms. */
  readonly hurriedDueMs: number;
  isHurried: boolean;
  timer: Timer | undefined;
}

const silentList = new ApiFailure('timeout', 'silent', `no answer for ${SILENT_LIST_MS / 1_000} s; still waiting`);

/** Copies an error as one that is not permanent, because its cause may pass soon. */
function notPermanent({ message, cause }: ResolveError): ResolveError {
  return new ResolveError(message, { code: 'EVENKEEL_FORBIDDEN', cause });
}

/** The step after `close`. It is returned but never taken, because the loop has ended. */
const again: Step = { next: 'list', pauseMs: 0 };

async function readLines(reply: ApiReply, attempt: WatchRequest, apply: (line: string) => void): Promise<void> {
  const reader = new LineReader((line) => {
    // After an abort, the remaining lines of a chunk must not be applied.
    attempt.signal.throwIfAborted();
    apply(line);
  });
  await reply.read((chunk) => {
    attempt.received();
    reader.push(chunk);
  });
  if (reader.midLine) throw new LineError('the stream ended inside a line');
}
