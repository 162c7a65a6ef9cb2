import type { ResolveError } from '../../../errors.js';
import type { Clock } from '../../../runtime/clock.js';
import type { Rng } from '../../../runtime/rng.js';
import type { ApiClient } from '../api/api-client.js';
import type { EndpointSlice } from '../slices/endpoint-slice.js';

/** Receives the results of a list-and-watch loop. Nothing is called after `close`. */
export interface ListWatchListener {
  /** A complete list has arrived: slices that are not in it are gone. */
  replaced(slices: readonly EndpointSlice[]): void;
  /** A slice was created or changed; undefined = it is gone. */
  changed(name: string, slice: EndpointSlice | undefined): void;
  /**
   * The loop is out of touch with the API server. Called once per kind of failure until `confirmed`; a refusal before the first list is
   * reported at once, and again as permanent if it lasts.
   */
  failed(error: ResolveError): void;
  /** The loop is in touch with the server again: the slices it has reported are current, or will be in a moment. */
  confirmed(): void;
  /** Something odd was handled; called once per kind until the next list. */
  warned(message: string, error?: unknown): void;
}

/** What a `ListWatch` needs. */
export interface ListWatchOptions {
  readonly client: ApiClient;
  /** The namespace of the Service. Rejects with a ResolveError if it cannot be determined. */
  readonly namespace: () => Promise<string>;
  readonly service: string;
  readonly clock: Clock;
  readonly rng: Rng;
  /** Whether a pause between two requests keeps the process alive. */
  readonly keepsProcessAlive: boolean;
  /** Whether to request a list as the beginning of a watch (a streaming list), where the API server can. */
  readonly streamingLists: boolean;
  readonly listener: ListWatchListener;
}
