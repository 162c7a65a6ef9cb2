import type { ResolveError } from '../../errors.js';
import type { Clock } from '../../runtime/clock.js';
import type { Rng } from '../../runtime/rng.js';
import type { ApiClient } from './api-client.js';
import type { EndpointSlice } from './endpoint-slice.js';

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
  /** Whether a list may be asked for as the beginning of a watch (W11). */
  readonly streamingLists: boolean;
  /** The version to go on from, of a state the listener has. @defaultValue none: it begins with a list */
  readonly version?: string | undefined;
  readonly listener: ListWatchListener;
}
