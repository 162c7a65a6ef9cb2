import type { EndpointSet } from '../endpoint/endpoint-set.js';
import type { ErrorCode } from '../errors.js';
import type { LoadFactory } from '../load/load.js';
import type { Observer } from '../observe/observer.js';
import type { OwnTarget, PickerFactory, PickSet } from '../picker/picker.js';
import type { Member } from '../pool/pool.js';
import type { RecordedSubchannel, SubchannelRecording } from '../pool/subchannel-recording.js';
import type { Clock } from '../runtime/clock.js';
import type { Rng } from '../runtime/rng.js';
import type { StageFactory } from '../stage/stage.js';

/** What records the calls of balancers: `flightRecorder()` of `evenkeel/recorder`. */
export interface Recorder {
  /** Begins to record a balancer; only balancers call this. Undefined if the recorder has no room for another balancer. */
  begin(balancer: RecordedBalancer): Recording | undefined;
  /** All that the recorder holds, in the format that `evenkeel explain` reads. */
  dump(options?: DumpOptions): Uint8Array<ArrayBuffer>;
}

/** Options of `Recorder.dump`. */
export interface DumpOptions {
  /** Writes `pod-1`, `zone-1` and so on for the names and addresses of endpoints and Services. @defaultValue false */
  readonly pseudonyms?: boolean | undefined;
}

/** A balancer as its recorder sees it. */
export interface RecordedBalancer {
  readonly name: string;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly picker: PickerFactory;
  readonly load: LoadFactory;
  readonly stages: readonly StageFactory[];
  /** The set that the balancer's picker was built with. */
  pickSet(): PickSet<OwnTarget & RecordedSubchannel> | undefined;
  /** Rebuilds the picker over the same set, without its predecessor: a replay can start here. */
  refresh(): void;
}

/** Records the calls of one balancer. On the path of every call: it allocates nothing. */
export interface Recording extends SubchannelRecording {
  /** The random source of picks: its state can be recorded. */
  readonly rng: Rng;
  readonly observer: Observer;
  /** Called just before a pick, or before the end of a call is handled: nothing has changed yet. */
  prepare(nowMs: number): void;
  /**
   * A pick was made. Returns the number of the call, from 1, if a call began with the pick.
   * @param flags Of `pickFlags`.
   */
  picked(
    subchannel: RecordedSubchannel | undefined,
    nowMs: number,
    flags: number,
    key: string | undefined,
    avoid: ReadonlySet<RecordedSubchannel> | undefined,
  ): number;
  /** The end of a call was recorded, and the load, the stages and the picker have handled it. */
  settled(): void;
  /** Records that a call waited for its endpoint. */
  waited(call: number, sinceMs: number): void;
  /** Records that a call got no endpoint. */
  refused(sinceMs: number, nowMs: number, code: ErrorCode): void;
  /** Records that a stage changed the set. */
  staged(stage: number, before: EndpointSet, after: EndpointSet): void;
  /** Records the set after all stages have run. */
  published(known: EndpointSet, members: readonly Member<unknown>[]): void;
  /** Records that the picker is about to be built over the last members. If `first` is not empty, only these count as ready. */
  rebuilding(first: readonly RecordedSubchannel[]): void;
  /** Ends the recording: nothing more will be recorded. */
  close(): void;
}

/** What a recording notes about a pick, as bits. */
export const pickFlags: { readonly began: 1; readonly keyed: 2; readonly avoiding: 4 } = {
  /** The pick became a call. */
  began: 1,
  keyed: 2,
  avoiding: 4,
};
