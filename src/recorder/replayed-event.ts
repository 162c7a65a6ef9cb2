import type { Outcome } from '../endpoint/outcome.js';
import type { Note } from './format.js';
import type { ReplicaSubchannel } from './replica-subchannel.js';

/** A pick that was recorded, and what the replica picks. */
export interface ReplayedPick {
  readonly is: 'pick';
  readonly atMs: number;
  /** The number of the call; 0 = none began. */
  readonly call: number;
  /** The subchannel that was picked; undefined: none could take the call. */
  readonly recorded: ReplicaSubchannel | undefined;
  /** The subchannel that is picked again; `'unknown'`: the picker is the application's. */
  readonly again: ReplicaSubchannel | undefined | 'unknown';
  readonly avoid: ReadonlySet<ReplicaSubchannel> | undefined;
  readonly keyed: boolean;
  /** A text of the same hash as the key. */
  readonly key: string | undefined;
}

/** The end of a call. */
export interface ReplayedEnd {
  readonly is: 'end';
  readonly atMs: number;
  readonly call: number;
  readonly subchannel: ReplicaSubchannel;
  readonly outcome: Outcome;
  /** How long the endpoint took to respond. */
  readonly latencyMs: number;
  /** False if that means nothing, because our own event loop was blocked. */
  readonly isMeasured: boolean;
}

/** What a record of a part was. */
export type ReplayedEvent =
  | ReplayedPick
  | ReplayedEnd
  | Note
  | { readonly is: 'waited'; readonly call: number; readonly sinceMs: number }
  | { readonly is: 'refused'; readonly sinceMs: number; readonly atMs: number; readonly code: string }
  | { readonly is: 'set' | 'reported'; readonly atMs: number };
