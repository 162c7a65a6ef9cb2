import type { ResolveError } from '../../../errors.js';
import type { Clock } from '../../../runtime/clock.js';
import type { Rng } from '../../../runtime/rng.js';
import type { ApiClient } from '../api/api-client.js';
import type { EndpointSlice } from '../slices/endpoint-slice.js';

/** Receives what a list-and-watch loop learns from the API server. After `close` of the loop nothing is called any more. */
export interface ListWatchListener {
  /** A complete list has arrived. Slices that are not in it no longer exist. */
  replaced(slices: readonly EndpointSlice[]): void;
  /** A slice was created or changed; undefined means that it was deleted. */
  changed(name: string, slice: EndpointSlice | undefined): void;
  /**
   * The loop has lost touch with the API server. Called once for each kind of failure, until `confirmed` is called. If the first list is
   * refused for lack of permission, this is reported at once, and again as a permanent error if the refusal lasts.
   */
  failed(error: ResolveError): void;
  /** The loop is in touch with the API server: the slices it has reported are current, or will be in a moment. May be called repeatedly. */
  confirmed(): void;
  /** Something unexpected was handled. Called once for each kind until the next list. */
  warned(message: string, error?: unknown): void;
}

/** What a `ListWatch` needs. */
export interface ListWatchOptions {
  readonly client: ApiClient;
  /** Returns the namespace of the Service. Rejects with a ResolveError if it cannot be determined. */
  readonly namespace: () => Promise<string>;
  readonly service: string;
  readonly clock: Clock;
  readonly rng: Rng;
  /**
   * Whether to request the list as the beginning of a watch, which Kubernetes calls a streaming list, if the API server supports that.
   */
  readonly streamingLists: boolean;
  readonly listener: ListWatchListener;
}
