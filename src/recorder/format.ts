import { EvenkeelError } from '../errors.js';

/** The first eight bytes of a dump: `EVNKEEL` and the version of the format. */
export const MAGIC: readonly number[] = [0x45, 0x56, 0x4e, 0x4b, 0x45, 0x45, 0x4c, 1];
/** Everything is aligned to units of this many bytes. */
export const UNIT = 8;

/**
 * Kinds of records. A record begins with a unit of two little-endian words. The first holds the kind (4 bits), flags (8 bits) and
 * which subchannel it is about, or a count (20 bits); the second a number. Times and other fractions are units of their own.
 */
export const kinds = {
  /** Number: length of the JSON that follows, in bytes. */
  json: 1,
  /** Flags: state. Number: how many calls it may have. */
  state: 2,
  /** Flags: `pickFlags`. Number: the call. Then its time, and with a key its hash. */
  pick: 3,
  /** Flags: `endFlags`. Number: the call. Then when it ended, and when the endpoint was asked. */
  end: 4,
  /** Flags: which fields follow. Then the time and the fields. The load was told. */
  report: 5,
  /** Number: place among those that answered when asked. */
  informed: 6,
  /** Count: of those that alone count as ready. Then the state of chance, two units, and who they are, two per unit. */
  rebuild: 7,
  /** Number: the call. Then since when it waited. */
  waited: 8,
  /** Flags: error code. Then since when it waited, and when it was refused. */
  refused: 9,
  /** Count: subchannels the next pick avoids. They follow, two per unit. */
  avoid: 10,
  /** Number: how many numbers follow. */
  numbers: 11,
  /** As `report`, without a time: the report of the outcome of the next end. */
  held: 12,
} as const;

/** Stands for no subchannel. */
export const NOBODY = 0xfffff;

export const states = ['idle', 'connecting', 'ready', 'backoff', 'draining', 'closed'] as const;
export const outcomeKinds = ['success', 'failure', 'cancelled', 'not-started'] as const;
export const causes = [undefined, 'connect', 'timeout', 'reset', 'status', 'overload', 'protocol'] as const;
/** Why a call got no endpoint, in the order of their numbers. */
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
/** Beside the outcome: its kind in bits 0 and 1, its cause in 2 to 4. */
export const endFlags = { measured: 32, held: 64 } as const;
/** Fields of a report, by bit. The last is the metric that `reported({ metric })` names. */
export const reportFields = ['application', 'cpu', 'rps', 'eps', 'inFlight', 'waiting', 'metric'] as const;

/** A picker, load or limit: undefined = written by the application. */
export interface Made {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
}

/** How a balancer was configured. */
export interface Configuration {
  readonly picker?: Made;
  readonly load?: Made;
  readonly limit?: Made | 'none';
  /** Undefined where the application wrote one. */
  readonly stages: readonly (string | null)[];
  readonly probesPerCall: number;
}

/** An endpoint, for people. */
export interface RecordedEndpoint {
  readonly key: string;
  readonly address: string;
  readonly port: number;
  readonly name?: string;
  readonly zone?: string;
  readonly node?: string;
}

/** What a part of a recording begins with. */
export interface Start {
  readonly k: 'start';
  readonly at: number;
  /** The number of the last call before it. */
  readonly calls: number;
  readonly version: number;
  readonly subchannels: readonly StartSubchannel[];
  /** As of the last set: who, weight, whether suspect. */
  readonly members: readonly (readonly [number, number, 0 | 1])[];
  readonly out: readonly Out[];
  /** What the picker was built with. */
  readonly set?: {
    readonly ready: readonly number[];
    readonly weights: readonly number[];
    readonly all: readonly number[];
    readonly allWeights: readonly number[];
  };
  readonly informed: readonly number[];
  readonly chance: readonly number[];
  /** How many of the numbers that follow are the load's own, and each subchannel's. */
  readonly memory: number;
  readonly fields: number;
  /** Notes from before that still hold, by subchannel. */
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

/** An endpoint that gets no calls: which one, and the stage that decided so. */
export interface Out {
  /** -1: there is no subchannel. */
  readonly id: number;
  readonly endpoint?: RecordedEndpoint;
  /** -1: unknown. */
  readonly stage: number;
}

/** Something happened: for people. */
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
  | {
      readonly k: 'set';
      readonly at: number;
      readonly version: number;
      /** How many of the members before it, from the front and from the back, stay; and who is in between. */
      readonly order?: readonly [front: number, back: number, between: readonly number[]];
      /** Whose weight or suspicion is new. */
      readonly changed: readonly (readonly [number, number, 0 | 1])[];
      readonly out?: readonly Out[];
    };

/** The text at the beginning of a dump. */
export interface DumpHeader {
  /** When it was made, in ISO 8601. */
  readonly madeAt: string;
  readonly pseudonyms: boolean;
  readonly balancers: readonly {
    readonly name: string;
    readonly configuration: Configuration;
    /** The time of its clock when the dump was made, in ms. */
    readonly nowMs: number;
    readonly closed: boolean;
  }[];
  readonly parts: readonly {
    readonly balancer: number;
    /** Where it begins and how long it is, in units. */
    readonly from: number;
    readonly units: number;
    readonly checksum: number;
  }[];
  /** Balancers that were not recorded because `bytes` was too small. */
  readonly leftOut: number;
}

/** CRC-32 (ISO-HDLC), as in zip files. */
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

/** A dump cannot be read. */
export function unreadable(why: string): EvenkeelError {
  return new EvenkeelError('EVENKEEL_RECORDING', `the recording cannot be read: ${why}`);
}
