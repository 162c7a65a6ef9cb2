import { hostPort } from '../../../endpoint/address.js';
import { endpointAppProtocol } from '../../../endpoint/app-protocol.js';
import { Attributes } from '../../../endpoint/attributes.js';
import { createEndpoint, type Endpoint } from '../../../endpoint/endpoint.js';
import { sameDescription } from '../../endpoint-list.js';
import type { EndpointSlice, SliceMember, SlicePort } from './endpoint-slice.js';

/** A slice in the union. A change makes a new object, so that candidates from the old slice are recognized by their source. */
interface Source {
  readonly slice: EndpointSlice;
  /** Every `address:port` of the slice. */
  readonly addresses: Set<string>;
}

/** An entry of a slice that has a certain `address:port`. */
interface Candidate {
  readonly source: Source;
  readonly member: SliceMember;
  readonly port: ChosenPort;
}

/** A port to use for a slice's members. */
export type ChosenPort = Pick<SlicePort, 'port' | 'appProtocol'>;

/** The ports to use for a slice's members, no number twice; none = skip the slice. */
export type PortChooser = (slice: EndpointSlice) => readonly ChosenPort[];

/** Endpoints by the `address:port` under which they are listed. */
export interface EndpointUnion {
  /** The endpoint at an `address:port`, if one is listed there. */
  at(address: string): Endpoint | undefined;
  /** Whether a slice has this `address:port`, for a pod with another uid. */
  hasOther(address: string, uid: string | undefined): boolean;
  /** Every `address:port` that is listed, in published order. */
  readonly addresses: readonly string[];
  /** Replaces a slice, or removes it. Takes effect in `settle`. */
  set(name: string, slice: EndpointSlice | undefined): void;
  /** Brings the endpoints up to date with the slices. Adds every `address:port` whose endpoint has changed to `touched`. */
  settle(touched: Set<string>): void;
}

/** Whether an entry of a slice may be used. */
export type MemberFilter = (member: SliceMember) => boolean;

/**
 * The union of slices as endpoints, one per address and port. A change of one slice costs time in proportion to that slice, however many
 * slices there are.
 */
export class SliceUnion implements EndpointUnion {
  readonly #choosePorts: PortChooser;
  readonly #accepts: MemberFilter;
  /** All candidates for an `address:port`, from all slices. Those of outdated sources are removed in `settle`. */
  readonly #candidates = new Map<string, Candidate[]>();
  readonly #sources = new Map<string, Source>();
  /** Every `address:port` whose candidates have changed. */
  readonly #unsettled = new Set<string>();
  readonly #endpoints = new Map<string, Endpoint>();
  /** Every listed `address:port` in published order; undefined after one was added or removed. */
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
   * Brings the union up to date. It is called once for all slices of a turn: each address is handled once, no matter how many slices name
   * it.
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
        // One slice has one candidate per address, which is the last in the list so far.
        else if (beats(candidate, candidates.at(-1) as Candidate)) candidates[candidates.length - 1] = candidate;
        source.addresses.add(address);
      }
    }
    return source;
  }

  /** Chooses the entry that counts for an address. True if that is another entry than before, or the same in another state. */
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
    // An endpoint stays the same object as long as nothing about it changes, so that stages and the pool see no change.
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
 * Whether the first of two entries for one address counts. A non-terminating entry beats a terminating one, then ready beats unready, then
 * the later slice, then the slice's name. Equal entries of one slice are ordered by uid, then by serving: their position means nothing.
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

/** Compares two resource versions. They are opaque, but decimal integers may be compared; otherwise they count as equal. */
export function compareVersions(a: string, b: string): number {
  if (!/^\d+$/.test(a) || !/^\d+$/.test(b)) return 0;
  return a.length === b.length ? compareText(a, b) : a.length - b.length;
}

export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Whether two descriptions of an `address:port` agree in everything that an endpoint carries. */
function saysTheSame(a: Endpoint, b: Omit<SliceMember, 'address' | 'unsafe'>): boolean {
  return a.uid === b.uid && sameDescription(a, b);
}
