import type { SubchannelState } from '../observe/observer.js';
import type { Note, RecordedEndpoint } from './format.js';
import type { Replica } from './replica.js';
import type { ReplicaSubchannel } from './replica-subchannel.js';

/** An endpoint of the set that can get no call. */
export interface LeftOut {
  readonly endpoint: RecordedEndpoint;
  /** The index of the stage that excluded the endpoint. */
  readonly stage: number | undefined;
  readonly state: SubchannelState | undefined;
  readonly suspect: boolean;
  /** The last thing that happened to the endpoint, and when. */
  readonly note: Note | undefined;
}

/** The endpoints of the current set that the picker cannot choose. */
export function leftOutOf({ set, members, out, notes }: Replica): LeftOut[] {
  const ready = new Set((set?.targets ?? []) as unknown as readonly ReplicaSubchannel[]);
  const stageOf = new Map(out.filter(({ id }) => id >= 0).map(({ id, stage }) => [id, stage]));
  const leftOut: LeftOut[] = [];
  for (const { subchannel, weight, suspect } of members) {
    if (weight > 0 && ready.has(subchannel)) continue;
    const { endpoint, state, recordedAs } = subchannel;
    const stage = weight > 0 ? undefined : (stageOf.get(recordedAs) ?? -1);
    leftOut.push({ endpoint, stage, state, suspect, note: notes.get(subchannel) });
  }
  for (const { id, endpoint, stage } of out) {
    if (id >= 0 || endpoint === undefined) continue;
    leftOut.push({ endpoint, stage, state: undefined, suspect: false, note: undefined });
  }
  return leftOut;
}
