import { EvenkeelError } from '../errors.js';

/** The first eight bytes of a dump: `EVNKEEL` and the version of the format. */
export const MAGIC: readonly number[] = [0x45, 0x56, 0x4e, 0x4b, 0x45, 0x45, 0x4c, 1];
/** Everything in a dump is aligned to units of this many bytes. */
export const UNIT = 8;

/**
 * The kinds of records in a recording. A record starts with a unit of two little-endian words. The first word holds the kind (4 bits),
 * flags (8 bits) and its subchannel or a count (20 bits); the second holds a number. Times and other fractions have units of their own.
 */
export const kinds = {
  /** A record in JSON. Number: the length of the JSON that follows, in bytes. */
  json: 1,
  /** The state of a subchannel changed. Flags: the state. Number: the subchannel's capacity in calls. */
  state: 2,
  /** A pick. Flags: `pickFlags`. Number: the call. Then follow the pick's time, and with a key its hash. */
  pick: 3,
  /** The end of a call. Flags: `endFlags`. Number: the call. Then follow when it ended, and when its measured part began. */
  end: 4,
  /** A load report reached the load. Flags: which fields follow. Then follow the time and the fields. */
  report: 5,
  /**
   * The picker was built anew. Count: how many endpoints alone count as ready. Then follow the random state (two units) and these endpoints
   * (two per unit).
   */
  rebuild: 6,
  /** A call waited for its endpoint. Number: the call. Then follows since when it waited. */
  waited: 7,
  /** A call got no endpoint. Flags: the error code. Then follow since when it waited, and when it was refused. */
  refused: 8,
  /** The subchannels that the next pick avoids. Count: how many follow, two per unit. */
  avoid: 9,
  /** A record of numbers. Number: how many numbers follow. */
  numbers: 10,
  /** A load report as in `report`, without a time: the report in the outcome of the next end of a call. */
  held: 11,
} as const;

/** The number that stands for no subchannel. */
export const NOBODY = 0xfffff;

export const states = ['idle', 'connecting', 'ready', 'backoff', 'draining', 'closed'] as const;
export const outcomeKinds = ['success', 'failure', 'cancelled', 'not-started'] as const;
export const causes = [undefined, 'connect', 'timeout', 'reset', 'status', 'overload', 'protocol'] as const;
/** The error codes of calls that got no endpoint, by number. */
export const refusals: readonly string[] = [
  'EVENKEEL_NO_ENDPOINTS',
  'EVENKEEL_NOT_READY',
  'EVENKEEL_QUEUE_FULL',
  'EVENKEEL_OVERLOAD',
  'EVENKEEL_TOO_LATE',
  'EVENKEEL_DEADLINE',
  'EVENKEEL_CONNECT',
  'EVENKEEL_RESOLVE',
  'EVENKEEL_FORBIDDEN',
  'EVENKEEL_PORT_AMBIGUOUS',
  'EVENKEEL_CLOSED',
];
/** Flags of the end of a call, in addition to its outcome, whose kind is in bits 0 and 1 and whose cause is in bits 2 to 4. */
export const endFlags = { measured: 32, held: 64 } as const;
/** The fields of a load report, by bit. The last is the metric of `reported({ metric })`. */
export const reportFields = ['application', 'cpu', 'rps', 'eps', 'inFlight', 'waiting', 'metric'] as const;

/** A picker or a load by its name and options. */
export interface Made {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
}

/** The configuration of a balancer in a recording. */
export interface Configuration {
  readonly picker?: Made;
  readonly load?: Made;
  /** The names of the balancer's stages; null for a stage of the application's own. */
  readonly stages: readonly (string | null)[];
}

/** An endpoint of a recording, as it is displayed. */
export interface RecordedEndpoint {
  readonly key: string;
  readonly address: string;
  readonly port: number;
  readonly name?: string;
  readonly zone?: string;
  readonly node?: string;
}

/** The members of a recorded set: for each, the number of its subchannel, its weight, and 1 if it is suspect. */
export type Members = readonly (readonly [id: number, weight: number, suspect: 0 | 1])[];

/** How a recorded set differs from the one before it. */
export interface SetChange {
  /** How many earlier members stay at the front and at the back of the set, and the members in between. */
  readonly order?: readonly [front: number, back: number, between: readonly number[]];
  /** The members with a new weight or suspicion. */
  readonly changed: Members;
}

/** The state at the beginning of a part of a recording. */
export interface Start {
  readonly k: 'start';
  readonly at: number;
  /** The number of the last call before the part. */
  readonly calls: number;
  readonly version: number;
  readonly subchannels: readonly StartSubchannel[];
  /** The last endpoint set: its members, their weights, and which are suspect. */
  readonly members: Members;
  readonly out: readonly Out[];
  /** The pick set with which the picker was built. */
  readonly set?: {
    readonly ready: readonly number[];
    readonly weights: readonly number[];
    readonly all: readonly number[];
    readonly allWeights: readonly number[];
  };
  readonly chance: readonly number[];
  /** How many numbers of the balancer's `load` hold for all endpoints together. They come first in the row of numbers after this. */
  readonly memory: number;
  /** How many numbers the `load` keeps for each subchannel. */
  readonly fields: number;
  /** Earlier notes about endpoints that still hold, by subchannel. */
  readonly notes: readonly Note[];
}

export interface StartSubchannel {
  readonly id: number;
  readonly endpoint: RecordedEndpoint;
  readonly state: number;
  readonly room: number;
  readonly inFlight: number;
  readonly started: number;
}

/** An endpoint that gets no calls, and the stage that decided so. */
export interface Out {
  /** The number of the subchannel; -1 means that there is none. */
  readonly id: number;
  readonly endpoint?: RecordedEndpoint;
  /** The index of the stage that left the endpoint out; -1 means unknown. */
  readonly stage: number;
}

/** A note in a recording about something that happened to an endpoint; for display. */
export interface Note {
  readonly k: 'note';
  readonly at: number;
  readonly what: 'ejected' | 'restored' | 'panic' | 'calm' | 'lost' | 'resolve-failed' | 'recovered' | 'closed';
  readonly id?: number;
  readonly text?: string;
  readonly durationMs?: number;
}

export type JsonRecord =
  | Start
  | Note
  | { readonly k: 'created'; readonly id: number; readonly endpoint: RecordedEndpoint }
  | { readonly k: 'closed'; readonly id: number }
  | (SetChange & {
      readonly k: 'set';
      readonly at: number;
      readonly version: number;
      readonly out?: readonly Out[];
    });

/** The header of a dump: which balancers were recorded, and where the parts of their recordings are. */
export interface DumpHeader {
  /** When the dump was made, in ISO 8601. */
  readonly madeAt: string;
  readonly pseudonyms: boolean;
  readonly balancers: readonly {
    readonly name: string;
    readonly configuration: Configuration;
    /** The time of the balancer's clock when the dump was made, in ms. */
    readonly nowMs: number;
    readonly closed: boolean;
  }[];
  readonly parts: readonly {
    readonly balancer: number;
    /** The part's offset and length, in units. */
    readonly from: number;
    readonly units: number;
    readonly checksum: number;
  }[];
  /** How many balancers were not recorded because `bytes` was too small. */
  readonly leftOut: number;
}

/** The CRC-32 (ISO-HDLC) of some bytes, as in zip files. */
export function checksumOf(bytes: Uint8Array): number {
  let crc = -1;
  for (let at = 0; at < bytes.length; at++) {
    crc = (crc >>> 8) ^ (table[(crc ^ (bytes[at] as number)) & 0xff] as number);
  }
  return (crc ^ -1) >>> 0;
}

const table: Int32Array = Int32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

/** Creates the error for a dump that cannot be read, with the code EVENKEEL_RECORDING. */
export function unreadable(why: string): EvenkeelError {
  return new EvenkeelError('EVENKEEL_RECORDING', `the recording cannot be read: ${why}`);
}
