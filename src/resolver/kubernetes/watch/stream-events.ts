import { ApiFailure, eventFailure } from '../api/api-failure.js';
import { type EndpointSlice, parseSlice } from '../slices/endpoint-slice.js';
import { SliceStore } from '../slices/slice-store.js';
import { parseWatchEvent } from './watch-event.js';

/** Receives the contents of a watch's lines. */
export interface StreamListener {
  /** The complete state that a streaming list starts with. */
  replaced(slices: readonly EndpointSlice[], version: string | undefined): void;
  changed(name: string, slice: EndpointSlice | undefined): void;
  bookmarked(): void;
  /** A line of the watch does not concern this Service. */
  ignored(what: string): void;
  /** A line of the watch was applied; its version, if it has one, is where to continue from. */
  applied(version: string | undefined): void;
}

/** Applies the lines of a watch in order; those of a streaming list are collected until its state is complete. */
export class StreamEvents {
  readonly #service: string;
  readonly #listener: StreamListener;
  /** The slices of a streaming list so far; undefined once it is complete, and for a watch that continues from a version. */
  #initial: SliceStore | undefined;

  constructor(service: string, isStreamingList: boolean, listener: StreamListener) {
    this.#service = service;
    this.#listener = listener;
    if (isStreamingList) this.#initial = new SliceStore();
  }

  /** Whether the state that a streaming list starts with is complete. */
  get isComplete(): boolean {
    return this.#initial === undefined;
  }

  /** Applies a line of a watch. Throws LineError if it is not a valid event, or an ApiFailure for an ERROR event. */
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
      // Any other bookmark before the list is complete would carry a version of which only a part has been seen.
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
