import type { Endpoint } from '../endpoint/endpoint.js';
import type { LoadReport, Outcome } from '../endpoint/outcome.js';
import type { Load } from '../load/load.js';
import type { SubchannelState } from '../observe/observer.js';
import type { Connection } from './transport.js';

/** A subchannel as its recording sees it. */
export interface RecordedSubchannel {
  /** The subchannel's number in the recording; only the recording reads and writes it. */
  recordedAs: number;
  readonly state: SubchannelState;
  readonly connection: Connection<unknown> | undefined;
  readonly capacity: number;
}

/** What a recording needs from a new subchannel. */
export interface SubchannelToRecord extends RecordedSubchannel {
  readonly endpoint: Endpoint;
  readonly load: Load;
  readonly inFlight: number;
  readonly started: number;
}

/** Records the subchannels of a balancer. Its methods are called in the middle of other work and must not call the balancer. */
export interface SubchannelRecording {
  created(subchannel: SubchannelToRecord): void;
  /** The state or the capacity of the subchannel changed. */
  changed(subchannel: RecordedSubchannel): void;
  /** The subchannel is gone for good. */
  closed(subchannel: RecordedSubchannel): void;
  /** A load report arrived for the subchannel, and its load is about to get the report. */
  reported(subchannel: RecordedSubchannel, report: LoadReport, nowMs: number): void;
  /** A call on the subchannel is about to end, with the arguments of `SubchannelCalls.end`. */
  ended(
    subchannel: RecordedSubchannel,
    call: number,
    nowMs: number,
    outcome: Outcome,
    measuredFromMs: number,
    isMeasured: boolean,
  ): void;
}
