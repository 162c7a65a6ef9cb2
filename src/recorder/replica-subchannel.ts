import type { Load, LoadFacts } from '../load/load.js';
import { RuledLoad } from '../load/load-rule.js';
import type { SubchannelState } from '../observe/observer.js';
import type { Warnings } from '../observe/warnings.js';
import { SubchannelCalls } from '../pool/subchannel-calls.js';
import type { Clock } from '../runtime/clock.js';
import type { RecordedEndpoint } from './format.js';

/** The clock of a replica, which stands still: the recorded events bring their own times. */
export const replicaClock: Clock = { now: () => 0, timer: () => ({ cancel() {}, ref() {} }), defer: () => {} };

/** What a replica's picker read of one subchannel. */
export interface Look {
  readonly subchannel: ReplicaSubchannel;
  /** What one more call would have cost on the endpoint; undefined if the picker only read whether it has room. */
  cost: number | undefined;
  readonly hasRoom: boolean;
  readonly inFlight: number;
}

/** A subchannel of a replica: the part that calls touch, and which recorded subchannel it stands for. */
export class ReplicaSubchannel extends SubchannelCalls<unknown> {
  readonly endpoint: RecordedEndpoint;
  /** While this is set, it collects what pickers read of subchannels, in order. */
  static looks: Look[] | undefined = undefined;

  constructor(id: number, endpoint: RecordedEndpoint, load: Load, warnings: Warnings) {
    super({ clock: replicaClock, warnings }, load, []);
    this.recordedAs = id;
    this.endpoint = endpoint;
  }

  /** Takes over the recorded state. @param room How many calls may run on the subchannel, as `roomOf` returns it. */
  becomes(state: SubchannelState, room: number): void {
    this.state = state;
    const capacity = room < 0 ? -1 - room : room;
    // Only the capacity of this connection is ever read.
    this.connection = { capacity, watchCapacity: () => {} } as never;
  }

  override get hasRoom(): boolean {
    const hasRoom = super.hasRoom;
    const { looks } = ReplicaSubchannel;
    if (looks !== undefined) looks.push({ subchannel: this, cost: undefined, hasRoom, inFlight: this.inFlight });
    return hasRoom;
  }

  override cost(nowMs: number): number {
    const cost = super.cost(nowMs);
    const { looks } = ReplicaSubchannel;
    if (looks !== undefined) {
      const last = looks.at(-1);
      if (last?.subchannel === this) last.cost = cost;
      else looks.push({ subchannel: this, cost, hasRoom: true, inFlight: this.inFlight });
    }
    return cost;
  }

  /** What the subchannel's load knows about the endpoint, for display. */
  facts(nowMs: number): LoadFacts {
    const { load } = this;
    return load instanceof RuledLoad ? load.facts(nowMs) : {};
  }

  protected override callEnded(): void {}

  protected override capacityGained(): void {}
}
