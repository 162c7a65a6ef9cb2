import { ApiFailure, eventFailure } from '../api/api-failure.js';
import { type EndpointSlice, parseSlice } from '../slices/endpoint-slice.js';
import { SliceStore } from '../slices/slice-store.js';
import { parseWatchEvent } from './watch-event.js';

/** Receives the contents of a watch's lines. */
export interface StreamListener {
  /** The complete state that a streaming list starts with has arrived. */
  replaced(slices: readonly EndpointSlice[], version: string | undefined): void;
  changed(name: string, slice: EndpointSlice | undefined): void;
  bookmarked(): void;
  /** The watch sent an event that has nothing to do with this Service. */
  ignored(what: string): void;
  /** A line of the watch was applied. The next watch may continue from its version, if it has one. */
  applied(version: string | undefined): void;
}

/** Applies the events of a watch in order. The events at the start of a streaming list are collected until the state is complete. */
export class StreamEvents {
  readonly #service: string;
  readonly #listener: StreamListener;
  /** The slices of a streaming list so far. Undefined once the list is complete, and for a watch that continues from a version. */
  #initial: SliceStore | undefined;

  constructor(service: string, isStreamingList: boolean, listener: StreamListener) {
    this.#service = service;
    this.#listener = listener;
    if (isStreamingList) this.#initial = new SliceStore();
  }

  /** Whether the state that a streaming list starts with has arrived completely. */
  get isComplete(): boolean {
    return this.#initial === undefined;
  }

  /** Applies a line of a watch. Throws LineError if it is not a valid event, and an ApiFailure for an event of the type ERROR. */
  apply(line: string): void {
    const event = parseWatchEvent(line);
    if (event.type === 'error') throw eventFailure(event.status);
    if (event.type === 'other') {
      this.#listener.ignored(event.what);
      return;
    }
    if (event.type !== 'bookmark') this.#change(event.name, event.type === 'put' ? event.object : undefined);
    else if (this.#initial === undefined) this.#listener.bookmarked();
    else {
      // Before the list is complete, any other bookmark is ignored: the state up to its version has arrived only in part.
      if (!event.endsInitialEvents || event.version === undefined) return;
      const slices = [...this.#initial.values()];
      this.#initial = undefined;
      this.#listener.replaced(slices, event.version);
    }
    if (this.#initial === undefined) this.#listener.applied(event.version);
  }

  #change(name: string, object: Parameters<typeof parseSlice>[0] | undefined): void {
    const slice = object === undefined ? undefined : parseSlice(object, this.#service);
    if (this.#initial === undefined) this.#listener.changed(name, slice);
    else if (!this.#initial.set(name, slice)) {
      throw new ApiFailure('protocol', 'size', 'the streaming list has more EndpointSlices than we keep');
    }
  }
}
