import { hostPort } from '../../endpoint/address.js';
import { createEndpoint, type Endpoint } from '../../endpoint/endpoint.js';
import { sameDescription } from '../endpoint-list.js';
import type { EndpointSlice, SliceMember } from './endpoint-slice.js';

/** One place in one slice that names an address and port. */
interface Candidate {
  readonly slice: EndpointSlice;
  readonly member: SliceMember;
  readonly port: number;
}

/** The ports under which a slice's members count; none = the slice does not count. */
export type PortChooser = (slice: EndpointSlice) => readonly number[];

/** Whether a member may be used at all. */
export type MemberFilter = (member: SliceMember) => boolean;

/**
 * The union of slices as endpoints, one per address and port (U6). A change of one slice costs as much as that slice is
 * long, however many there are.
 */
export class SliceUnion {
  readonly #choosePorts: PortChooser;
  readonly #accepts: MemberFilter;
  /** Everything that names an `address:port`, over all slices. */
  readonly #candidates = new Map<string, Candidate[]>();
  /** Where each slice has its candidates. */
  readonly #bySlice = new Map<string, readonly string[]>();
  readonly #endpoints = new Map<string, Endpoint>();
  /** Addresses in published order; undefined after one came or went. */
  #order: string[] | undefined;

  constructor(choosePorts: PortChooser, accepts: MemberFilter) {
    this.#choosePorts = choosePorts;
    this.#accepts = accepts;
  }

  /** The endpoint at an `address:port`, if there is one. */
  at(address: string): Endpoint | undefined {
    return this.#endpoints.get(address);
  }

  /** Every `address:port`, in published order. */
  get addresses(): readonly string[] {
    this.#order ??= [...this.#endpoints.keys()].sort(compareText);
    return this.#order;
  }

  /** Replaces a slice, or takes it out. Adds every `address:port` whose endpoint may have changed to `touched`. */
  put(name: string, slice: EndpointSlice | undefined, touched: Set<string>): void {
    const before = this.#bySlice.get(name) ?? [];
    for (const address of before) {
      const left = this.#candidates.get(address)?.filter((candidate) => candidate.slice.name !== name) ?? [];
      if (left.length === 0) this.#candidates.delete(address);
      else this.#candidates.set(address, left);
    }
    const after = slice === undefined ? [] : this.#add(slice);
    if (after.length === 0) this.#bySlice.delete(name);
    else this.#bySlice.set(name, after);
    for (const addresses of [before, after]) {
      for (const address of addresses) if (this.#settle(address)) touched.add(address);
    }
  }

  #add(slice: EndpointSlice): readonly string[] {
    const addresses: string[] = [];
    for (const port of this.#choosePorts(slice)) {
      for (const member of slice.members) {
        if (!this.#accepts(member)) continue;
        const address = hostPort(member.address, port);
        const candidates = this.#candidates.get(address);
        if (candidates === undefined) this.#candidates.set(address, [{ slice, member, port }]);
        else candidates.push({ slice, member, port });
        addresses.push(address);
      }
    }
    return addresses;
  }

  /** Decides who holds an address now. True if that is somebody else, or the same one in another state. */
  #settle(address: string): boolean {
    const candidates = this.#candidates.get(address);
    const before = this.#endpoints.get(address);
    if (candidates === undefined) {
      if (before === undefined) return false;
      this.#endpoints.delete(address);
      this.#order = undefined;
      return true;
    }
    let best = candidates[0] as Candidate;
    for (const candidate of candidates) if (beats(candidate, best)) best = candidate;
    // The same object as long as nothing about it changes, so that nobody downstream sees a change (S10).
    if (before !== undefined && saysTheSame(before, best.member)) return false;
    if (before === undefined) this.#order = undefined;
    const { member, port } = best;
    this.#endpoints.set(address, createEndpoint({ ...member, port }));
    return true;
  }
}

/**
 * U6: a non-terminating entry beats a terminating one, then ready beats unready, then the later slice, then the slice's
 * name. Two entries of one slice that are alike in all that are told apart by uid, then by serving: order means nothing.
 */
function beats(a: Candidate, b: Candidate): boolean {
  const [x, y] = [a.member.conditions, b.member.conditions];
  if (x.terminating !== y.terminating) return !x.terminating;
  if (x.ready !== y.ready) return x.ready;
  const versions = compareVersions(a.slice.version, b.slice.version);
  if (versions !== 0) return versions > 0;
  if (a.slice.name !== b.slice.name) return a.slice.name > b.slice.name;
  const [p, q] = [a.member.uid ?? '', b.member.uid ?? ''];
  return p === q ? x.serving && !y.serving : p > q;
}

/** Versions are opaque, but where both are decimal integers they may be compared (W5); else they count as equal. */
function compareVersions(a: string, b: string): number {
  if (!/^\d+$/.test(a) || !/^\d+$/.test(b)) return 0;
  return a.length === b.length ? compareText(a, b) : a.length - b.length;
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Whether two descriptions of one `address:port` agree in everything an endpoint carries. */
export function saysTheSame(a: Endpoint, b: Omit<SliceMember, 'address' | 'unsafe'>): boolean {
  return a.uid === b.uid && sameDescription(a, b);
}
