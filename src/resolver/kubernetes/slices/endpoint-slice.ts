import { isIP } from 'node:net';
import { normalizeAddress } from '../../../endpoint/address.js';
import type { Endpoint, EndpointConditions } from '../../../endpoint/endpoint.js';
import { classifyAddress, type UnsafeAddressClass } from '../../../endpoint/unsafe-address.js';
import type { AddressFamily } from '../../host-families.js';
import { isObject, textOf, type Unchecked } from '../api/unchecked.js';

/** The label of an EndpointSlice that names its Service. */
export const serviceNameLabel = 'kubernetes.io/service-name';

/** Texts longer than this cannot be an address in any notation. */
const MAX_ADDRESS_LENGTH = 64;
const MAX_MALFORMED = 3;

/** A TCP port of a slice that has a number. */
export interface SlicePort {
  /** The name of the port; "" for an unnamed one. */
  readonly name: string;
  readonly port: number;
  /** The protocol that the pods speak on the port, such as `kubernetes.io/h2c`; undefined where the Service does not say. */
  readonly appProtocol?: string | undefined;
}

/**
 * One entry of a slice, with the API's defaults filled in. `address` is the first address of the entry, in canonical form; the API allows
 * one only.
 */
export interface SliceMember
  extends Pick<Endpoint, 'address' | 'conditions' | 'uid' | 'name' | 'zone' | 'nodeName' | 'hintZones' | 'hintNodes'> {
  /** The class of the address if no pod can have it; whoever uses the slice decides whether to use the address anyway. */
  readonly unsafe: UnsafeAddressClass | undefined;
}

/** One EndpointSlice, checked and reduced to what we use. Immutable. */
export interface EndpointSlice {
  readonly name: string;
  /** The `metadata.resourceVersion` of the object; it is compared only to tell which of two slices is newer. */
  readonly version: string;
  /** The family of the addresses; undefined for FQDN and unknown types: such a slice has no members. */
  readonly family: AddressFamily | undefined;
  readonly ports: readonly SlicePort[];
  readonly members: readonly SliceMember[];
  /** The first entries left out because their first address is not an IP address of the slice's family, for a warning. */
  readonly malformed: readonly string[];
}

/**
 * Reads a slice of `service`. Undefined if the slice belongs to another Service or none. Trusts nothing in it: a field of the wrong type
 * counts as missing, and an unusable entry is left out without affecting the others.
 *
 * @param object The object from the API server; the caller has checked its `metadata.name`.
 */
export function parseSlice(object: Unchecked, service: string): EndpointSlice | undefined {
  const metadata = object.metadata as Unchecked;
  if (!isObject(metadata.labels) || metadata.labels[serviceNameLabel] !== service) return undefined;
  const family = object.addressType === 'IPv4' || object.addressType === 'IPv6' ? object.addressType : undefined;
  const malformed: string[] = [];
  const members: SliceMember[] = [];
  for (const entry of family === undefined ? [] : listOf(object.endpoints)) {
    if (!isObject(entry)) continue;
    const [first] = listOf(entry.addresses);
    if (first === undefined) continue;
    // An address with a zone index (fe80::1%eth0) means nothing on another machine.
    const isAddress = typeof first === 'string' && first.length <= MAX_ADDRESS_LENGTH && !first.includes('%');
    const address = isAddress ? normalizeAddress(first) : '';
    if (isIP(address) === (family === 'IPv4' ? 4 : 6)) members.push(parseMember(entry, address));
    else if (malformed.length < MAX_MALFORMED) malformed.push(excerpt(first));
  }
  return {
    name: metadata.name as string,
    version: textOf(metadata.resourceVersion) ?? '',
    family,
    ports: parsePorts(object.ports),
    members,
    malformed,
  };
}

function parseMember(entry: Unchecked, address: string): SliceMember {
  const target = isObject(entry.targetRef) ? entry.targetRef : undefined;
  const hints = isObject(entry.hints) ? entry.hints : undefined;
  return {
    address,
    unsafe: mayBeUnsafe(address) ? classifyAddress(address) : undefined,
    conditions: parseConditions(entry.conditions),
    uid: textOf(target?.uid),
    name: textOf(target?.name) ?? textOf(entry.hostname),
    zone: textOf(entry.zone),
    nodeName: textOf(entry.nodeName),
    hintZones: namesOf(hints?.forZones),
    hintNodes: namesOf(hints?.forNodes),
  };
}

/**
 * Whether an address needs a check against the unsafe ranges. False for what nearly every pod has: IPv4 in 10/8, 172/8 and the like, IPv6
 * in 2000::/3 and fc00::/7, except for the unsafe ranges in them. Checking the lists for each member of each event would take nine tenths
 * of the time it takes to read a slice.
 */
function mayBeUnsafe(address: string): boolean {
  if (address.includes(':')) {
    if (address.includes(':5efe:') || !/^([23][0-9a-f]{3}|f[cd][0-9a-f]{2}):/.test(address)) return true;
    return /^(2002|2001:0?|fd00:(ec2|42)|fd20:ce):/.test(address);
  }
  const first = Number.parseInt(address, 10);
  if (first === 100 || first === 168 || first === 192) return !address.startsWith('192.168.');
  return !(first >= 1 && first <= 223 && first !== 127 && first !== 169);
}

const serving: EndpointConditions = Object.freeze({ ready: true, serving: true, terminating: false });

/**
 * Reads the conditions of a slice's entry: missing `ready` and `serving` mean true, missing `terminating` means false; `null` is missing.
 */
function parseConditions(value: unknown): EndpointConditions {
  if (!isObject(value)) return serving;
  return { ready: value.ready !== false, serving: value.serving !== false, terminating: value.terminating === true };
}

/** Reads the ports of a slice: TCP ports with a number; a missing name counts as "". */
function parsePorts(value: unknown): readonly SlicePort[] {
  const ports: SlicePort[] = [];
  for (const entry of listOf(value)) {
    if (!isObject(entry)) continue;
    const { port, protocol } = entry;
    if (protocol !== undefined && protocol !== null && protocol !== '' && protocol !== 'TCP') continue;
    if (typeof port !== 'number' || !Number.isInteger(port) || port < 1 || port > 65_535) continue;
    ports.push({ name: textOf(entry.name) ?? '', port, appProtocol: textOf(entry.appProtocol) });
  }
  return ports;
}

/** A short copy of a value for a message: a substring of a long string would keep all of it in memory. */
function excerpt(value: unknown): string {
  const text = typeof value === 'object' ? 'an object' : String(value);
  return [...text.slice(0, MAX_ADDRESS_LENGTH)].join('');
}

const none: readonly never[] = Object.freeze([]);

function namesOf(value: unknown): readonly string[] {
  const names: string[] = [];
  for (const entry of listOf(value)) {
    const name = isObject(entry) ? textOf(entry.name) : undefined;
    if (name !== undefined) names.push(name);
  }
  return names.length === 0 ? none : names;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : none;
}
