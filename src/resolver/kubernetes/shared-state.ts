import type { ResolveError } from '../../errors.js';
import type { EndpointSlice } from './endpoint-slice.js';
import type { SliceStore } from './slice-store.js';

/** What members share: the state of a Service, and a watch that keeps it up to date. */
export interface SharedState {
  readonly slices: SliceStore;
  /** Whether a complete list has been received. */
  readonly synced: boolean;
  readonly version: string | undefined;
  readonly failure: ResolveError | undefined;
  /** Starts our own watch from the version we have; does nothing while it runs. */
  start(): void;
  stop(): void;
  replaced(slices: readonly EndpointSlice[], version: string | undefined): void;
  changed(slices: readonly EndpointSlice[], gone: readonly string[], version: string | undefined): void;
  /** Nothing has changed up to this version. */
  advanced(version: string | undefined): void;
  failed(error: ResolveError): void;
  confirmed(): void;
  warned(message: string): void;
}
