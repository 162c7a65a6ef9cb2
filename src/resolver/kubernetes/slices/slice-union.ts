import { hostPort } from '../../../endpoint/address.js';
import { endpointAppProtocol } from '../../../endpoint/app-protocol.js';
import { Attributes } from '../../../endpoint/attributes.js';
import { createEndpoint, type Endpoint } from '../../../endpoint/endpoint.js';
import { sameDescription } from '../../endpoint-list.js';
import type { EndpointSlice, SliceMember, SlicePort } from './endpoint-slice.js';

/** A slice in the union. Each change of a slice creates a new object, so that entries of the old slice can be recognized. */
interface Source {
  readonly slice: EndpointSlice;
  /** Every `address:port` of the slice. */
  readonly addresses: Set<string>;
}

/** An entry of a slice for a certain `address:port`. Several slices may have one for the same address; `beats` decides which counts. */
interface Candidate {
  readonly source: Source;
  readonly member: SliceMember;
  readonly port: ChosenPort;
}

/** A port to use for a slice's members. */
export type ChosenPort = Pick<SlicePort, 'port' | 'appProtocol'>;

/** Chooses the ports to use for a slice's members. No port number may occur twice. An empty array means that the slice is not used. */
export type PortChooser = (slice: EndpointSlice) => readonly ChosenPort[];

/** A set of endpoints, each listed under an `address:port`. */
export interface EndpointUnion {
  /** The endpoint at an `address:port`, if one is listed there. */
  at(address: string): Endpoint | undefined;
  /** Whether this `address:port` belongs to a pod with another uid. */
  hasOther(address: string, uid: string | undefined): boolean;
  /** Every `address:port` in the set, in the order in which it is published. */
  readonly addresses: readonly string[];
  /** Replaces a slice; undefined removes it. Takes effect in the next call of `settle`. */
  set(name: string, slice: EndpointSlice | undefined): void;
  /** Updates the endpoints from the slices. Adds every `address:port` whose endpoint has changed to `touched`. */
  settle(touched: Set<string>): void;
}

/** Whether an entry of a slice may be used. */
export type MemberFilter = (member: SliceMember) => boolean;

/**
 * Merges slices to a set of endpoints, one for each address and port. A change of a slice takes time in proportion to that slice, no
 * matter how many other slices there are.
 */
export class SliceUnion implements EndpointUnion {
  readonly #choosePorts: PortChooser;
  readonly #accepts: MemberFilter;
  /** For each `address:port`, the entries of all slices that have it. Entries of replaced slices are removed in `settle`. */
  readonly #candidates = new Map<string, Candidate[]>();
  readonly #sources = new Map<string, Source>();
  /** Every `address:port` whose entries have changed since the last call of `settle`. */
  readonly #unsettled = new Set<string>();
  readonly #endpoints = new Map<string, Endpoint>();
  /** Every `address:port` in the set, in the order in which it is published; undefined if the order has to be computed again. */
  #order: string[] | undefined;

  constructor(choosePorts: PortChooser, accepts: MemberFilter) {
    this.#choosePorts = choosePorts;
    this.#accepts = accepts;
  }

  at(address: string): Endpoint | undefined {
    return this.#endpoints.get(address);
  }

  hasOther(address: string, uid: string | undefined): boolean {
    const endpoint = this.#endpoints.get(address);
    return endpoint !== undefined && endpoint.uid !== uid;
  }

  /** The version of the slice whose entry for this `address:port` counts. */
  versionAt(address: string): string {
    const [first, ...others] = this.#candidates.get(address) ?? [];
    const best = others.reduce((least, next) => (least !== undefined && beats(next, least) ? next : least), first);
    return best?.source.slice.version ?? '';
  }

  get addresses(): readonly string[] {
    this.#order ??= [...this.#endpoints.keys()].sort(compareText);
    return this.#order;
  }

  set(name: string, slice: EndpointSlice | undefined): void {
    for (const address of this.#sources.get(name)?.addresses ?? []) this.#unsettled.add(address);
    this.#sources.delete(name);
    if (slice === undefined) return;
    const source = this.#add(slice);
    if (source.addresses.size > 0) this.#sources.set(name, source);
    for (const address of source.addresses) this.#unsettled.add(address);
  }

  /**
   * Updates the endpoints. It is called once for all slices that changed in one turn of the event loop, so that each address is handled
   * once, no matter how many slices name it.
   */
  settle(touched: Set<string>): void {
    for (const address of this.#unsettled) if (this.#settle(address)) touched.add(address);
    this.#unsettled.clear();
  }

  #add(slice: EndpointSlice): Source {
    const source: Source = { slice, addresses: new Set() };
    for (const port of this.#choosePorts(slice)) {
      for (const member of slice.members) {
        if (!this.#accepts(member)) continue;
        const address = hostPort(member.address, port.port);
        const candidate = { source, member, port };
        const candidates = this.#candidates.get(address);
        if (candidates === undefined) this.#candidates.set(address, [candidate]);
        else if (!source.addresses.has(address)) candidates.push(candidate);
        // A slice adds one entry per address. If the slice names the address again, its entry is the last in the list, and the better of
        // the two stays.
        else if (beats(candidate, candidates.at(-1) as Candidate)) candidates[candidates.length - 1] = candidate;
        source.addresses.add(address);
      }
    }
    return source;
  }

  /** Chooses which entry counts for an address. Returns whether the endpoint has changed. */
  #settle(address: string): boolean {
    const all = this.#candidates.get(address) ?? [];
    const candidates = all.filter(({ source }) => this.#sources.get(source.slice.name) === source);
    const before = this.#endpoints.get(address);
    const [first] = candidates;
    if (first === undefined) {
      this.#candidates.delete(address);
      if (before === undefined) return false;
      this.#endpoints.delete(address);
      this.#order = undefined;
      return true;
    }
    this.#candidates.set(address, candidates);
    let best = first;
    for (const candidate of candidates) if (beats(candidate, best)) best = candidate;
    // An endpoint stays the same object as long as nothing about it changes, so that others can compare objects to see whether it has
    // changed.
    const { member, port } = best;
    const isSameProtocol = before?.attributes.get(endpointAppProtocol) === port.appProtocol;
    if (before !== undefined && isSameProtocol && saysTheSame(before, member)) return false;
    if (before === undefined) this.#order = undefined;
    this.#endpoints.set(address, createEndpoint({ ...member, port: port.port, attributes: attributesOf(port) }));
    return true;
  }
}

function attributesOf({ appProtocol }: ChosenPort): Attributes {
  return appProtocol === undefined ? Attributes.empty : Attributes.empty.with(endpointAppProtocol, appProtocol);
}

/**
 * Whether entry `a` counts rather than `b`, for the same address. An entry that is not terminating is better than one that is; then a
 * ready one is better than one that is not; then the newer slice counts, then the slice's name. Two entries of one slice are compared by
 * uid and then by `serving`, so that the result does not depend on their order.
 */
function beats(a: Candidate, b: Candidate): boolean {
  const [x, y] = [a.member.conditions, b.member.conditions];
  if (x.terminating !== y.terminating) return !x.terminating;
  if (x.ready !== y.ready) return x.ready;
  const [s, t] = [a.source.slice, b.source.slice];
  const versions = compareVersions(s.version, t.version);
  if (versions !== 0) return versions > 0;
  if (s.name !== t.name) return s.name > t.name;
  const [p, q] = [a.member.uid ?? '', b.member.uid ?? ''];
  return p === q ? x.serving && !y.serving : p > q;
}

/** Compares two resource versions of Kubernetes. Versions that are decimal integers can be compared; all others count as equal. */
export function compareVersions(a: string, b: string): number {
  if (!/^\d+$/.test(a) || !/^\d+$/.test(b)) return 0;
  return a.length === b.length ? compareText(a, b) : a.length - b.length;
}

export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Whether two descriptions of an `address:port` are equal in all fields that an endpoint has. */
function saysTheSame(a: Endpoint, b: Omit<SliceMember, 'address' | 'unsafe'>): boolean {
  return a.uid === b.uid && sameDescription(a, b);
}
