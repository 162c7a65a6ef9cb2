import { isIP } from 'node:net';
import { normalizeAddress } from '../../../endpoint/address.js';
import type { Endpoint, EndpointConditions } from '../../../endpoint/endpoint.js';
import { type UnsafeAddressClass, unsafeClassOf } from '../../../endpoint/unsafe-address.js';
import type { AddressFamily } from '../../host-families.js';
import { isObject, textOf, type Unchecked } from '../api/unchecked.js';

/** The label of an EndpointSlice that names its Service. */
export const serviceNameLabel = 'kubernetes.io/service-name';

/** The longest text that may be an address, in characters. */
const MAX_ADDRESS_LENGTH = 64;
const MAX_MALFORMED = 3;
/** The label of the slices of a headless Service. Its value does not matter. */
const headlessLabel = 'service.kubernetes.io/headless';

/** A TCP port in a slice. */
export interface SlicePort {
  /** The name of the port; "" for an unnamed one. */
  readonly name: string;
  readonly port: number;
  /** The protocol that the pods speak on the port, such as `kubernetes.io/h2c`; undefined if the Service does not say. */
  readonly appProtocol?: string | undefined;
}

/**
 * One endpoint in a slice, with the default values of the Kubernetes API filled in. `address` is the endpoint's first address in its
 * usual notation; Kubernetes allows only one.
 */
export interface SliceMember
  extends Pick<Endpoint, 'address' | 'conditions' | 'uid' | 'name' | 'zone' | 'nodeName' | 'hintZones' | 'hintNodes'> {
  /**
   * The reason why no pod can have this address, such as `loopback`; undefined for an ordinary address. Whoever uses the slice decides
   * whether to use the endpoint anyway.
   */
  readonly unsafe: UnsafeAddressClass | undefined;
}

/** One EndpointSlice object of Kubernetes, reduced to the fields that evenkeel uses. It has been checked and never changes. */
export interface EndpointSlice {
  readonly name: string;
  /** The `metadata.resourceVersion` of the object. It is only compared to find out which of two slices is newer. */
  readonly version: string;
  /** The address family; undefined for slices with host names or unknown types, which are treated as empty. */
  readonly family: AddressFamily | undefined;
  /** Whether its label says that the Service is headless. */
  readonly isHeadless: boolean;
  readonly ports: readonly SlicePort[];
  readonly members: readonly SliceMember[];
  /**
   * The first endpoints that were left out because their address is not an IP address of the slice's family. They are named in a warning.
   */
  readonly malformed: readonly string[];
}

/**
 * Reads an EndpointSlice. Returns undefined if the slice belongs to another Service or to none. Everything in the object is checked: a
 * field of the wrong type counts as missing, and an endpoint that is not usable is left out without affecting the others.
 *
 * @param object The object from the API server. The caller has checked that it has a `metadata.name`.
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
    // An address with a zone index, such as fe80::1%eth0, is only valid on the machine that wrote it.
    const isAddress = typeof first === 'string' && first.length <= MAX_ADDRESS_LENGTH && !first.includes('%');
    const address = isAddress ? normalizeAddress(first) : '';
    if (isIP(address) === (family === 'IPv4' ? 4 : 6)) members.push(parseMember(entry, address));
    else if (malformed.length < MAX_MALFORMED) malformed.push(excerpt(first));
  }
  return {
    name: metadata.name as string,
    version: textOf(metadata.resourceVersion) ?? '',
    family,
    isHeadless: Object.hasOwn(metadata.labels, headlessLabel),
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
    unsafe: unsafeClassOf(address),
    conditions: parseConditions(entry.conditions),
    uid: textOf(target?.uid),
    name: textOf(target?.name) ?? textOf(entry.hostname),
    zone: textOf(entry.zone),
    nodeName: textOf(entry.nodeName),
    hintZones: namesOf(hints?.forZones),
    hintNodes: namesOf(hints?.forNodes),
  };
}

const serving: EndpointConditions = Object.freeze({ ready: true, serving: true, terminating: false });

/**
 * Reads the conditions of an endpoint. As the Kubernetes API defines it, a missing or null `ready` and `serving` count as true, and a
 * missing `terminating` as false.
 */
function parseConditions(value: unknown): EndpointConditions {
  if (!isObject(value)) return serving;
  return { ready: value.ready !== false, serving: value.serving !== false, terminating: value.terminating === true };
}

/** Reads the ports of a slice. Only TCP ports with a number count; a missing name counts as "". */
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

/**
 * Copies the beginning of a value for a message. The characters are copied because a substring of a long string would keep all of it in
 * memory.
 */
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
