import { pickFlags } from '../call/recording.js';
import { kinds, UNIT, unreadable } from './format.js';

/** The position of a record, and the contents of its first unit. */
export interface RecordPlace {
  readonly kind: number;
  readonly flags: number;
  /** The number of a subchannel, or a count. */
  readonly id: number;
  readonly number: number;
  /** The record's offset and length, in units. */
  readonly at: number;
  readonly units: number;
}

/** The records of a part, in order. Throws EVENKEEL_RECORDING for an incomplete record or an unknown kind. */
export function* recordsOf(part: Uint8Array): Generator<RecordPlace> {
  const words = new DataView(part.buffer, part.byteOffset, part.byteLength);
  const end = Math.floor(part.byteLength / UNIT);
  for (let at = 0; at < end; ) {
    const first = words.getUint32(at * UNIT, true);
    const number = words.getUint32(at * UNIT + 4, true);
    const record = { kind: first & 15, flags: (first >>> 4) & 255, id: first >>> 12, number, at, units: 0 };
    record.units = 1 + following(record);
    const { units } = record;
    if (at + units > end) throw unreadable(`record ${at} ends after its part`);
    yield record;
    at += units;
  }
}

/** How many units of a record follow its first unit. */
function following({ kind, flags, id, number, at }: Omit<RecordPlace, 'units'>): number {
  switch (kind) {
    case kinds.json:
      return Math.ceil(number / UNIT);
    case kinds.state:
      return 0;
    case kinds.pick:
      return (flags & pickFlags.keyed) === 0 ? 1 : 2;
    case kinds.end:
      return 2;
    case kinds.report:
      return 1 + bits(flags);
    case kinds.held:
      return bits(flags);
    case kinds.rebuild:
      return 2 + ((id + 1) >> 1);
    case kinds.waited:
      return 1;
    case kinds.refused:
      return 2;
    case kinds.avoid:
      return (id + 1) >> 1;
    case kinds.numbers:
      return number;
    default:
      throw unreadable(`record ${at} is of no known kind`);
  }
}

export function bits(flags: number): number {
  let count = 0;
  for (let rest = flags; rest !== 0; rest &= rest - 1) count++;
  return count;
}
