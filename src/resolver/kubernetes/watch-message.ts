import { isIP } from 'node:net';
import { ResolveError } from '../../errors.js';
import { type EndpointSlice, isObject, type SliceMember } from './endpoint-slice.js';

/** Part of the group's name: members with another protocol version meet in another group, and use their own watch. */
export const PROTOCOL = 1;
/** Maximum slices in one part of a state, and maximum endpoints unless it is a single slice. */
const PART_SLICES = 50;
const PART_MEMBERS = 1_000;
const MAX_PARTS = 10_000;

/** The sender's position. */
interface Stand {
  readonly protocol: typeof PROTOCOL;
  /** Increases with each change of leader; the leader of the highest term leads. */
  readonly term: number;
  /** Counts states and changes within a term, so that a lost one is noticed. */
  readonly seq: number;
  /** The last applied version of the API server. */
  readonly version: string | undefined;
}

/** A failure of the leader's watch, as far as it can be sent. */
interface ToldFailure {
  readonly message: string;
  readonly code: 'EVENKEEL_RESOLVE' | 'EVENKEEL_FORBIDDEN';
  readonly permanent: boolean;
}

/** Messages between members that share a watch. */
export type WatchMessage = Stand &
  (
    | { readonly kind: 'lead'; readonly isSynced: boolean; readonly failure: ToldFailure | undefined }
    | {
        readonly kind: 'state';
        readonly part: number;
        readonly parts: number;
        readonly slices: readonly EndpointSlice[];
      }
    | { readonly kind: 'change'; readonly slices: readonly EndpointSlice[]; readonly gone: readonly string[] }
    | { readonly kind: 'ask' }
  );

export function stand(term: number, seq: number, version: string | undefined): Stand {
  return { protocol: PROTOCOL, term, seq, version };
}

/** A checked message; undefined for anything else. */
export function readWatchMessage(value: unknown): WatchMessage | undefined {
  if (!isObject(value) || value.protocol !== PROTOCOL) return undefined;
  const message = value as unknown as WatchMessage;
  const { term, seq, version } = message;
  if (!isCount(term) || !isCount(seq) || (version !== undefined && typeof version !== 'string')) return undefined;
  switch (message.kind) {
    case 'ask':
      return message;
    case 'lead': {
      const { failure } = message;
      const fits = failure === undefined || (isObject(failure) && typeof failure.message === 'string');
      return typeof message.isSynced === 'boolean' && fits ? message : undefined;
    }
    case 'state': {
      const { part, parts } = message;
      const fits = isCount(part) && isCount(parts) && part < parts && parts <= MAX_PARTS;
      return fits && areSlices(message.slices) ? message : undefined;
    }
    case 'change': {
      const { gone } = message;
      const fits = Array.isArray(gone) && gone.every((name) => typeof name === 'string');
      return fits && areSlices(message.slices) ? message : undefined;
    }
    default:
      return undefined;
  }
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** They come from a parser like ours; this rejects other forms. */
function areSlices(value: unknown): value is readonly EndpointSlice[] {
  return Array.isArray(value) && value.every(isSlice);
}

function isSlice(value: unknown): boolean {
  if (!isObject(value) || typeof value.name !== 'string' || typeof value.version !== 'string') return false;
  const { family, ports, members, malformed } = value as unknown as EndpointSlice;
  if (family !== undefined && family !== 'IPv4' && family !== 'IPv6') return false;
  if (!Array.isArray(ports) || !Array.isArray(members) || !Array.isArray(malformed)) return false;
  const version = family === 'IPv6' ? 6 : 4;
  return (
    ports.every((port) => isObject(port) && typeof port.name === 'string' && Number.isInteger(port.port)) &&
    members.every((member) => isMember(member, version)) &&
    malformed.every((text) => typeof text === 'string')
  );
}

function isMember(value: unknown, version: number): boolean {
  if (!isObject(value)) return false;
  const { address, conditions, hintZones, hintNodes } = value as unknown as SliceMember;
  return (
    typeof address === 'string' &&
    isIP(address) === version &&
    isObject(conditions) &&
    Array.isArray(hintZones) &&
    Array.isArray(hintNodes)
  );
}

/** Slices divided into parts that are quick to read; for none, a single empty part. */
export function partsOf(slices: Iterable<EndpointSlice>): readonly (readonly EndpointSlice[])[] {
  const parts: EndpointSlice[][] = [[]];
  let members = 0;
  for (const slice of slices) {
    const last = parts[parts.length - 1] as EndpointSlice[];
    members += slice.members.length;
    if (last.length > 0 && (last.length === PART_SLICES || members > PART_MEMBERS)) {
      parts.push([slice]);
      members = slice.members.length;
    } else last.push(slice);
  }
  return parts;
}

export function tellFailure(error: ResolveError | undefined): ToldFailure | undefined {
  if (error === undefined) return undefined;
  const { message, permanent } = error;
  return { message, permanent, code: error.code === 'EVENKEEL_FORBIDDEN' ? error.code : 'EVENKEEL_RESOLVE' };
}

export function failureTold({ message, code, permanent }: ToldFailure): ResolveError {
  return new ResolveError(message, {
    ...(code === 'EVENKEEL_FORBIDDEN' && { code }),
    ...(permanent === true && { permanent }),
  });
}

/** Whether a version is older than another; unknown unless both are numbers. */
export function isOlder(version: string | undefined, than: string | undefined): boolean {
  if (version === undefined || than === undefined || !/^\d+$/.test(version) || !/^\d+$/.test(than)) return false;
  return BigInt(version) < BigInt(than);
}
