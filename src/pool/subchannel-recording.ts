import type { Endpoint } from '../endpoint/endpoint.js';
import type { LoadReport, Outcome } from '../endpoint/outcome.js';
import type { Load } from '../load/load.js';
import type { SubchannelState } from '../observe/observer.js';
import type { Connection } from './transport.js';

/** A subchannel as its recording is told of it. */
export interface RecordedSubchannel {
  /** Which one it is, in the recording; only the recording reads and writes it. */
  recordedAs: number;
  readonly state: SubchannelState;
  readonly connection: Connection<unknown> | undefined;
  readonly capacity: number;
}

/** All a recording needs of a subchannel. */
export interface SubchannelToRecord extends RecordedSubchannel {
  readonly endpoint: Endpoint;
  readonly load: Load;
  readonly inFlight: number;
  readonly started: number;
}

/** What records the subchannels of a balancer. Called in the middle of other work: it calls nobody back. */
export interface SubchannelRecording {
  created(subchannel: SubchannelToRecord): void;
  /** Its state changed, or how many calls it may have. */
  changed(subchannel: RecordedSubchannel): void;
  /** It is gone for good. */
  closed(subchannel: RecordedSubchannel): void;
  /** The endpoint said how busy it is, and its load is about to be told. */
  reported(subchannel: RecordedSubchannel, report: LoadReport, nowMs: number): void;
  /** A call on it is about to end, as `SubchannelCalls.end` is told. */
  ended(
    subchannel: RecordedSubchannel,
    call: number,
    nowMs: number,
    outcome: Outcome,
    askedMs: number,
    isMeasured: boolean,
  ): void;
}
