import type { ServerResponse } from 'node:http';
import type { Clock, Timer } from '../../runtime/clock.js';
import type { Rng } from '../../runtime/rng.js';
import { type ResourceName, resourceTypes } from './api-server-objects.js';
import type { LabelMatcher } from './api-server-selector.js';
import type { StatusObject } from './api-server-status.js';
import type { StoredObject, StoreEvent } from './api-server-store.js';
import { resetSocket } from './reset-socket.js';

/** The backlog of a watch is sent in chunks of up to this many bytes, cut anywhere. */
const PIECE_BYTES = 2_048;
/** A client that leaves this many bytes unread is disconnected, as a real API server does with slow watchers. */
const MAX_UNREAD_BYTES = 64 * 1024 * 1024;

/** What to do to an open watch. */
export type Disturbance =
  /** The body of the watch ends properly. */
  | 'end'
  /** The connection of the watch is reset (TCP RST). */
  | 'reset'
  /** The watch sends half a line, then its body ends properly. */
  | 'cut'
  /** The watch sends a line that is not JSON, and continues. */
  | 'garbage'
  /** Nothing more is sent on the watch, not even bookmarks or its end; its connection stays open. */
  | 'silence'
  /** The watch sends a bookmark now. */
  | 'bookmark'
  /** The watch sends an ERROR event with this Status code, then ends. */
  | { readonly error: number }
  /** The watch sends these bytes unchanged. */
  | { readonly raw: string | Uint8Array };

/**
 * Rewrites a line that a watch sends: returns the chunks to send instead, and what happens after them. Undefined leaves the line as it is.
 */
export type Mangle = (
  line: Buffer,
) => { readonly pieces: readonly Uint8Array[]; readonly after?: 'end' | 'reset' } | undefined;

export interface WatchStreamOptions {
  readonly response: ServerResponse;
  readonly resource: ResourceName;
  readonly namespace: string;
  readonly matches: LabelMatcher;
  readonly bookmarks: boolean;
  readonly bookmarkIntervalMs: number;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly rng: Rng;
  /** Returns the version that the watch's bookmarks carry. */
  readonly version: () => number;
  readonly mangle: () => Mangle | undefined;
}

/** One open watch: turns writes to the store into events, one JSON object per line. */
export class WatchStream {
  readonly #options: WatchStreamOptions;
  /** Writes up to this version are not sent, because the client already knows them. */
  floor: number = 0;
  readonly #timers = new Set<Timer>();
  #held: Buffer[] | undefined;
  #silent = false;
  #ended = false;

  constructor(options: WatchStreamOptions) {
    this.#options = options;
    const { response } = options;
    response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-cache, private' });
    response.flushHeaders();
    response.on('close', () => this.#stop());
    this.#schedule();
  }

  /** Whether the client is still connected and the body has not ended. */
  get open(): boolean {
    return !this.#ended;
  }

  /** Sends the state or the history that a client requested as one backlog. `endMark` ends a streaming list. */
  backlog(lines: readonly string[], endMark?: string): void {
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
  deliver(event: StoreEvent): void {
    if (event.revision <= this.floor) return;
    const line = this.lineFor(event);
    if (line !== undefined) this.#line(line);
  }

  /** The line for a write as this watch's selector sees it: an object whose labels stop matching is DELETED. */
  lineFor(event: StoreEvent): string | undefined {
    const { resource, namespace, matches } = this.#options;
    const stored = (event.after ?? event.before) as StoredObject;
    if (event.resource !== resource || (namespace !== '' && stored.namespace !== namespace)) return undefined;
    const before = event.before !== undefined && matches(event.before.labels);
    const after = event.after !== undefined && matches(event.after.labels);
    if (after) return eventLine(before ? 'MODIFIED' : 'ADDED', (event.after as StoredObject).eventText);
    if (!before) return undefined;
    return eventLine('DELETED', (event.before as StoredObject).at(event.revision).eventText);
  }

  bookmark(): void {
    this.#line(bookmarkLine(this.#options.resource, this.#options.version()));
  }

  error(status: StatusObject): void {
    this.#line(`{"type":"ERROR","object":${JSON.stringify(status)}}`);
    this.end();
  }

  disturb(what: Exclude<Disturbance, { readonly error: number }>): void {
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

  end(): void {
    if (this.#ended || this.#silent) return;
    this.#options.response.end();
    this.#stop();
  }

  reset(): void {
    const { socket } = this.#options.response;
    if (socket) resetSocket(socket);
    this.#stop();
  }

  /** Holds back everything the watch sends, like a network that drops packets. */
  hold(): void {
    this.#held ??= [];
  }

  /** Sends at once what the watch has held back. */
  release(): void {
    const held = this.#held;
    this.#held = undefined;
    for (const bytes of held ?? []) this.#write(bytes);
  }

  #schedule(): void {
    const { timeoutMs, bookmarks, bookmarkIntervalMs, rng } = this.#options;
    this.#timer(() => this.end(), timeoutMs);
    if (!bookmarks) return;
    const scheduleBookmark = (): void => {
      this.#timer(() => {
        this.bookmark();
        scheduleBookmark();
      }, bookmarkIntervalMs);
    };
    scheduleBookmark();
    // The watch sends a bookmark in its last two seconds, so that the next watch starts from a recent version.
    if (timeoutMs > 2_000) this.#timer(() => this.bookmark(), timeoutMs - 2_000 + rng.next() * 1_500);
  }

  #timer(fn: () => void, delayMs: number): void {
    const timer = this.#options.clock.timer(() => {
      this.#timers.delete(timer);
      fn();
    }, delayMs);
    this.#timers.add(timer);
  }

  #line(line: string): void {
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

  #write(bytes: Buffer): void {
    if (this.#ended || this.#silent) return;
    if (this.#held !== undefined) {
      this.#held.push(bytes);
      return;
    }
    const { response } = this.#options;
    response.write(bytes);
    if (response.writableLength > MAX_UNREAD_BYTES) this.reset();
  }

  #stop(): void {
    this.#ended = true;
    for (const timer of this.#timers) timer.cancel();
    this.#timers.clear();
  }
}

export function eventLine(type: 'ADDED' | 'MODIFIED' | 'DELETED', objectText: string): string {
  return `{"type":"${type}","object":${objectText}}`;
}

/** A bookmark as a real API server sends it: the nameless, empty object of the kind. */
export function bookmarkLine(resource: ResourceName, version: number, initialEventsEnd = false): string {
  const { kind, apiVersion } = resourceTypes[resource];
  const metadata = {
    resourceVersion: String(version),
    ...(initialEventsEnd ? { annotations: { 'k8s.io/initial-events-end': 'true' } } : {}),
  };
  const rest =
    resource === 'endpointslices' ? { addressType: '', endpoints: null, ports: null } : { spec: {}, status: {} };
  return JSON.stringify({ type: 'BOOKMARK', object: { kind, apiVersion, metadata, ...rest } });
}
