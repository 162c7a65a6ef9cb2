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

/** Records the calls of balancers. `flightRecorder()` of `evenkeel/recorder` creates one. */
export interface Recorder {
  /**
   * Begins to record a balancer. Balancers call this, applications do not. Returns undefined if the recorder has no room for another
   * balancer.
   */
  begin(balancer: RecordedBalancer): Recording | undefined;
  /** Returns everything that the recorder holds, in the format that `evenkeel explain` reads. */
  dump(options?: DumpOptions): Uint8Array<ArrayBuffer>;
}

/** Options of `Recorder.dump`: what the dump shows of names and addresses. */
export interface DumpOptions {
  /**
   * Whether the dump says `pod-1`, `zone-1` and so on in place of the names and addresses of endpoints and Services. @defaultValue false
   */
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
  /** Returns the set with which the balancer's current picker was built. */
  pickSet(): PickSet<OwnTarget & RecordedSubchannel> | undefined;
  /** Rebuilds the picker over the same set as if there had been no picker before, so that a replay can start there. */
  refresh(): void;
}

/** Records the calls of one balancer. Its methods run for every call and allocate nothing. */
export interface Recording extends SubchannelRecording {
  /** The random source that picks use. Its state is part of the recording, so that picks can be made again. */
  readonly rng: Rng;
  readonly observer: Observer;
  /** Called just before a pick and just before the end of a call is handled, while nothing has changed yet. */
  prepare(nowMs: number): void;
  /**
   * Records a pick. Returns the number of the call, from 1, if a call began with the pick.
   *
   * @param flags Bits of `pickFlags`.
   */
  picked(
    subchannel: RecordedSubchannel | undefined,
    nowMs: number,
    flags: number,
    key: string | undefined,
    avoid: ReadonlySet<RecordedSubchannel> | undefined,
  ): number;
  /** Called when load, stages and picker have handled the end of a call that was recorded before. */
  settled(): void;
  /** Records that a call waited for its endpoint. */
  waited(call: number, sinceMs: number): void;
  /** Records that a call got no endpoint. */
  refused(sinceMs: number, nowMs: number, code: ErrorCode): void;
  /** Records that a stage changed the set. */
  staged(stage: number, before: EndpointSet, after: EndpointSet): void;
  /** Records the set after all stages have run. */
  published(known: EndpointSet, members: readonly Member<unknown>[]): void;
  /**
   * Records that a picker is about to be built over the members last published. If `first` is not empty, only those subchannels count as
   * ready.
   */
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
