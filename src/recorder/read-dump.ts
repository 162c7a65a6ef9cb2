import { asError, isEvenkeelError } from '../errors.js';
import { type Configuration, checksumOf, type DumpHeader, MAGIC, type Made, UNIT, unreadable } from './format.js';

/** The contents of a dump: the recordings of one or several balancers. */
export interface Dump {
  /** When the dump was made, in ms since 1970. */
  readonly madeAtMs: number;
  readonly pseudonyms: boolean;
  readonly leftOut: number;
  readonly balancers: readonly DumpedBalancer[];
}

export interface DumpedBalancer {
  readonly name: string;
  readonly configuration: Configuration;
  readonly nowMs: number;
  readonly closed: boolean;
  /** The balancer's parts in the order in which they were written. */
  readonly parts: readonly Uint8Array<ArrayBuffer>[];
}

/** Parses a dump. Throws EVENKEEL_RECORDING if the bytes are no dump, or an incomplete one. */
export function readDump(bytes: Uint8Array): Dump {
  return reading(() => {
    const dump = alignedCopy(bytes);
    if (dump.length < 2 * UNIT || MAGIC.some((byte, at) => at < 7 && dump[at] !== byte)) {
      throw unreadable('this is no recording of evenkeel');
    }
    if (dump[7] !== MAGIC[7]) throw unreadable(`its format is version ${dump[7]}, this evenkeel reads ${MAGIC[7]}`);
    const words = new DataView(dump.buffer);
    const length = words.getUint32(8, true);
    const bodies = 2 + Math.ceil(length / UNIT);
    if (bodies * UNIT > dump.length) throw unreadable('it is cut off');
    const text = dump.subarray(2 * UNIT, 2 * UNIT + length);
    if (checksumOf(text) !== words.getUint32(12, true)) throw unreadable('its beginning is damaged');
    const header = checkHeader(JSON.parse(new TextDecoder().decode(text)));
    const parts = header.parts.map(({ balancer, from, units, checksum }, index) => {
      const end = (bodies + from + units) * UNIT;
      if (end > dump.length) throw unreadable(`it is cut off in part ${index + 1} of ${header.parts.length}`);
      const part = dump.slice((bodies + from) * UNIT, end);
      if (checksumOf(part) !== checksum) throw unreadable(`part ${index + 1} of ${header.parts.length} is damaged`);
      return { balancer, part };
    });
    return {
      madeAtMs: Date.parse(header.madeAt),
      pseudonyms: header.pseudonyms,
      leftOut: header.leftOut,
      balancers: header.balancers.map((balancer, index) => ({
        ...balancer,
        parts: parts.filter((each) => each.balancer === index).map(({ part }) => part),
      })),
    };
  });
}

/** Runs `read`, and reports any error in it as the recording's fault: EVENKEEL_RECORDING. */
export function reading<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (isEvenkeelError(error, 'EVENKEEL_RECORDING')) throw error;
    throw unreadable(asError(error).message);
  }
}

/** Copies a dump to an aligned address, because its units of 8 bytes can be read in place only if they are aligned. */
function alignedCopy(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  if (!(bytes instanceof Uint8Array)) throw unreadable('this is no Uint8Array');
  return new Uint8Array(bytes);
}

function checkHeader(value: unknown): DumpHeader {
  const header = object(value, 'header');
  const balancers = list(header.balancers, 'balancers').map((each) => {
    const { name, configuration, nowMs, closed } = object(each, 'balancer');
    return {
      name: string(name, 'name'),
      configuration: checkConfiguration(configuration),
      nowMs: number(nowMs, 'nowMs'),
      closed: closed === true,
    };
  });
  const parts = list(header.parts, 'parts').map((each) => {
    const { balancer, from, units, checksum } = object(each, 'part');
    const part = {
      balancer: whole(balancer, 'balancer'),
      from: whole(from, 'from'),
      units: whole(units, 'units'),
      checksum: whole(checksum, 'checksum'),
    };
    if (part.balancer >= balancers.length) throw unreadable('a part is of no balancer');
    return part;
  });
  // All parts together must not be longer than the file: if parts could overlap, a short file could contain very many.
  const total = parts.reduce((sum, { units }) => sum + units, 0);
  if (parts.some(({ from, units }) => from + units > total)) throw unreadable('its parts overlap');
  const madeAt = string(header.madeAt, 'madeAt');
  if (Number.isNaN(Date.parse(madeAt))) throw unreadable('madeAt is no date');
  return {
    madeAt,
    pseudonyms: header.pseudonyms === true,
    balancers,
    parts,
    leftOut: whole(header.leftOut, 'leftOut'),
  };
}

function checkConfiguration(value: unknown): Configuration {
  const { picker, load, stages } = object(value, 'configuration');
  return {
    ...(picker !== undefined && { picker: checkMade(picker) }),
    ...(load !== undefined && { load: checkMade(load) }),
    stages: list(stages, 'stages').map((stage) => (stage === null ? null : string(stage, 'stage'))),
  };
}

function checkMade(value: unknown): Made {
  const { name, options } = object(value, 'configuration');
  return { name: string(name, 'name'), options: object(options, 'options') };
}

export function object(value: unknown, name: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw unreadable(`${name} is no object`);
  return value as Record<string, unknown>;
}

export function list(value: unknown, name: string): readonly unknown[] {
  if (!Array.isArray(value)) throw unreadable(`${name} is no list`);
  return value;
}

export function number(value: unknown, name: string): number {
  if (typeof value !== 'number' || !Number.isFinite(value)) throw unreadable(`${name} is no number`);
  return value;
}

/** Checks that a value in a recording is a whole number from 0 to 2^32 - 1. */
export function whole(value: unknown, name: string): number {
  if (!Number.isInteger(value) || (value as number) < 0 || (value as number) > 2 ** 32 - 1) {
    throw unreadable(`${name} is no count`);
  }
  return value as number;
}

export function string(value: unknown, name: string): string {
  if (typeof value !== 'string') throw unreadable(`${name} is no text`);
  return value;
}
