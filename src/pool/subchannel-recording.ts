import type { Endpoint } from '../endpoint/endpoint.js';
import type { LoadReport, Outcome } from '../endpoint/outcome.js';
import type { Load } from '../load/load.js';
import type { SubchannelState } from '../observe/observer.js';
import type { Connection } from './transport.js';

/** The part of a subchannel that recordings read. */
export interface RecordedSubchannel {
  /** The subchannel's number in the recording; only the recording reads and writes it. */
  recordedAs: number;
  readonly state: SubchannelState;
  readonly connection: Connection<unknown> | undefined;
  readonly capacity: number;
}

/** What a recording reads of a new subchannel, in addition. */
export interface SubchannelToRecord extends RecordedSubchannel {
  readonly endpoint: Endpoint;
  readonly load: Load;
  readonly inFlight: number;
  readonly started: number;
}

/** Records the subchannels of a balancer. Its methods are called in the middle of other work, so they must not call the balancer. */
export interface SubchannelRecording {
  created(subchannel: SubchannelToRecord): void;
  /** The state or the capacity of the subchannel has changed. */
  changed(subchannel: RecordedSubchannel): void;
  /** The subchannel is closed and will not be used again. */
  closed(subchannel: RecordedSubchannel): void;
  /** A load report has arrived for the subchannel, whose load gets it next. */
  reported(subchannel: RecordedSubchannel, report: LoadReport, nowMs: number): void;
  /** A call on the subchannel is about to end, with these arguments for `SubchannelCalls.end`. */
  ended(
    subchannel: RecordedSubchannel,
    call: number,
    nowMs: number,
    outcome: Outcome,
    measuredFromMs: number,
    isMeasured: boolean,
  ): void;
}
