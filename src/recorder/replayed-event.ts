import type { Outcome } from '../endpoint/outcome.js';
import type { Note } from './format.js';
import type { ReplicaSubchannel } from './replica-subchannel.js';

/** A pick that was recorded, and what the replica picks in its place. */
export interface ReplayedPick {
  readonly is: 'pick';
  readonly atMs: number;
  /** The number of the call; 0 means that no call began with the pick. */
  readonly call: number;
  /** The subchannel that was picked in the recording; undefined if none could take the call. */
  readonly recorded: ReplicaSubchannel | undefined;
  /** The subchannel that the replica picks; `'unknown'` if the picker is the application's own. */
  readonly again: ReplicaSubchannel | undefined | 'unknown';
  readonly avoid: ReadonlySet<ReplicaSubchannel> | undefined;
  readonly keyed: boolean;
  /** A text that has the recorded key's hash. */
  readonly key: string | undefined;
}

/** The recorded end of a call. */
export interface ReplayedEnd {
  readonly is: 'end';
  readonly atMs: number;
  readonly call: number;
  readonly subchannel: ReplicaSubchannel;
  readonly outcome: Outcome;
  /** How long the endpoint took to respond, in ms. */
  readonly latencyMs: number;
  /** False if the latency means nothing, because our own event loop was blocked. */
  readonly isMeasured: boolean;
}

/** The event that a record of a part stands for, once it has been replayed. */
export type ReplayedEvent =
  | ReplayedPick
  | ReplayedEnd
  | Note
  | { readonly is: 'waited'; readonly call: number; readonly sinceMs: number }
  | { readonly is: 'refused'; readonly sinceMs: number; readonly atMs: number; readonly code: string }
  | { readonly is: 'set' | 'reported'; readonly atMs: number };
