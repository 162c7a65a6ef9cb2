import { hostPort } from '../../../endpoint/address.js';
import type { Endpoint, EndpointConditions } from '../../../endpoint/endpoint.js';
import { sameEndpoint } from '../../endpoint-list.js';
import type { AddressFamily } from '../../host-families.js';
import type { EndpointSlice } from './endpoint-slice.js';
import {
  compareText,
  compareVersions,
  type EndpointUnion,
  type MemberFilter,
  type PortChooser,
  SliceUnion,
} from './slice-union.js';

/** A pod on one port: all entries of slices with the same `targetRef.uid`, or a single entry that has no uid. */
interface Pod {
  /** The `address:port` texts of the pod, first those of the address family that is dialed first, then those of the other family. */
  readonly addresses: readonly [Set<string>, Set<string>];
  /** The endpoints of the pod that are in the set, by their `address:port`. A pod with an IPv4 and an IPv6 address is one endpoint. */
  listed: ReadonlyMap<string, Endpoint>;
  /** Whether the pod's slices of the two families disagree about it. */
  isDisputed: boolean;
}

const nothing: ReadonlyMap<string, Endpoint> = new Map();

/**
 * Joins the slices of both address families to one set, with one endpoint per pod and port. Entries with the same `targetRef.uid` are the
 * two addresses of one endpoint. Kubernetes changes the slices of the two families one after the other, so a pod may have only one address
 * for a moment; its endpoint stays the same object throughout.
 *
 * Some entries cannot be joined, because they have no uid, or because a uid has several addresses of one family. Of those, only the entries
 * of one family are used.
 */
export class JoinedUnion implements EndpointUnion {
  readonly #families: readonly [AddressFamily, AddressFamily];
  readonly #unions: readonly [SliceUnion, SliceUnion];
  readonly #pods = new Map<string, Pod>();
  /** The id of the pod that has each `address:port` of either family. */
  readonly #podAt = new Map<string, string>();
  readonly #disputed = new Set<string>();
  readonly #endpoints = new Map<string, Endpoint>();
  #order: string[] | undefined;
  /** The address family used for endpoints that cannot be joined, as an index into `#families`. */
  #lone: 0 | 1 = 0;

  /** @param families Both address families, with the one that is dialed first in front. */
  constructor(families: readonly [AddressFamily, AddressFamily], choosePorts: PortChooser, accepts: MemberFilter) {
    this.#families = families;
    const unionOf = (family: AddressFamily): SliceUnion =>
      new SliceUnion((slice) => (slice.family === family ? choosePorts(slice) : []), accepts);
    this.#unions = [unionOf(families[0]), unionOf(families[1])];
  }

  at(address: string): Endpoint | undefined {
    return this.#endpoints.get(address);
  }

  hasOther(address: string, uid: string | undefined): boolean {
    return this.#unions.some((union) => union.hasOther(address, uid));
  }

  get addresses(): readonly string[] {
    this.#order ??= [...this.#endpoints.keys()].sort(compareText);
    return this.#order;
  }

  set(name: string, slice: EndpointSlice | undefined): void {
    for (const union of this.#unions) union.set(name, slice);
  }

  /** Chooses the address family that is used for endpoints that cannot be joined. Takes effect in the next call of `settle`. */
  chooseLone(family: AddressFamily): void {
    const lone = family === this.#families[0] ? 0 : 1;
    if (lone === this.#lone) return;
    this.#lone = lone;
    for (const id of this.#pods.keys()) this.#disputed.add(id);
  }

  settle(touched: Set<string>): void {
    const changed = new Set(this.#disputed);
    this.#unions.forEach((union, index) => {
      const addresses = new Set<string>();
      union.settle(addresses);
      for (const address of addresses) this.#assign(address, union.at(address), index as 0 | 1, changed);
    });
    for (const id of changed) this.#list(id, touched);
  }

  /** Moves an `address:port` to the pod that has it now, and adds the ids of both pods to `changed`. */
  #assign(address: string, endpoint: Endpoint | undefined, index: 0 | 1, changed: Set<string>): void {
    const before = this.#podAt.get(address);
    const id = endpoint && podOf(endpoint);
    if (before !== undefined) changed.add(before);
    if (before !== id) {
      if (before !== undefined) this.#pods.get(before)?.addresses[index].delete(address);
      if (id === undefined) this.#podAt.delete(address);
      else this.#podAt.set(address, id);
    }
    if (id === undefined) return;
    changed.add(id);
    let pod = this.#pods.get(id);
    if (pod === undefined) {
      pod = { addresses: [new Set(), new Set()], listed: nothing, isDisputed: false };
      this.#pods.set(id, pod);
    }
    pod.addresses[index].add(address);
  }

  /** Updates the endpoints of a pod from its slices. Adds every `address:port` that has changed to `touched`. */
  #list(id: string, touched: Set<string>): void {
    const pod = this.#pods.get(id);
    if (pod === undefined) return;
    const before = pod.listed;
    const after = this.#endpointsOf(pod);
    pod.listed = after;
    if (pod.isDisputed) this.#disputed.add(id);
    else this.#disputed.delete(id);
    for (const at of before.keys()) {
      // Another pod may have been listed at this `address:port` since.
      if (after.has(at) || this.#endpoints.get(at) !== before.get(at)) continue;
      this.#endpoints.delete(at);
      this.#order = undefined;
      touched.add(at);
    }
    for (const [at, endpoint] of after) {
      const present = this.#endpoints.get(at);
      if (present === endpoint) continue;
      if (present === undefined) this.#order = undefined;
      this.#endpoints.set(at, endpoint);
      touched.add(at);
    }
    if (pod.addresses.every(({ size }) => size === 0)) this.#pods.delete(id);
  }

  #endpointsOf(pod: Pod): ReadonlyMap<string, Endpoint> {
    pod.isDisputed = false;
    const [[a, ...moreOfFirst], [b, ...moreOfSecond]] = pod.addresses;
    const address = a ?? b;
    const hasUid = address !== undefined && this.#endpointAt(address)?.uid !== undefined;
    if (hasUid && moreOfFirst.length === 0 && moreOfSecond.length === 0) {
      return this.#joined(pod, address, a === undefined ? undefined : b);
    }
    const lone = pod.addresses[this.#lone];
    return this.#apart(lone.size === 0 && hasUid ? pod.addresses[this.#lone === 0 ? 1 : 0] : lone);
  }

  #apart(addresses: ReadonlySet<string>): ReadonlyMap<string, Endpoint> {
    const listed = new Map<string, Endpoint>();
    for (const address of addresses) listed.set(address, this.#endpointAt(address) as Endpoint);
    return listed;
  }

  /**
   * Returns one endpoint for a pod with one or two addresses. The endpoint keeps its place in the set and its key as long as the pod
   * keeps one of its addresses.
   */
  #joined(pod: Pod, first: string, second: string | undefined): ReadonlyMap<string, Endpoint> {
    const base = this.#endpointAt(first) as Endpoint;
    const other = second === undefined ? undefined : this.#endpointAt(second);
    // The one endpoint of the pod so far, and the `address:port` at which it is listed.
    const [place, present] = pod.listed.size === 1 ? ([...pod.listed][0] as [string, Endpoint]) : [];
    let conditions = base.conditions;
    if (other !== undefined && second !== undefined) {
      const order = compareVersions(this.#versionAt(first), this.#versionAt(second));
      conditions = newest(base.conditions, other.conditions, order);
      pod.isDisputed = !sameConditions(base.conditions, other.conditions);
    }
    const key = present !== undefined && sharesAddress(present, base, other) ? present.key : base.key;
    // The endpoint of the slice is used as it is where nothing of it changes.
    const isUnchanged = other === undefined && key === base.key;
    const next = isUnchanged ? base : Object.freeze({ ...base, otherAddress: other?.address, key, conditions });
    const endpoint = present !== undefined && sameEndpoint(present, next) ? present : next;
    return new Map([[second !== undefined && place === second ? second : first, endpoint]]);
  }

  #endpointAt(address: string): Endpoint | undefined {
    return this.#unions[0].at(address) ?? this.#unions[1].at(address);
  }

  #versionAt(address: string): string {
    return this.#unions[this.#unions[0].at(address) === undefined ? 1 : 0].versionAt(address);
  }
}

function podOf({ uid, address, port }: Endpoint): string {
  return uid === undefined ? hostPort(address, port) : `${port}#${uid}`;
}

/**
 * Whether a pod still has one of the addresses it had. If not, it counts as a different endpoint although the uid is the same, as after a
 * reboot of its node.
 */
function sharesAddress(before: Endpoint, first: Endpoint, second: Endpoint | undefined): boolean {
  const had = [before.address, before.otherAddress];
  return had.includes(first.address) || (second !== undefined && had.includes(second.address));
}

/**
 * Decides the state of a pod if its IPv4 slice and its IPv6 slice say different things, because one was not written yet. A pod that
 * terminates never stops doing so, so that counts first. Otherwise the slice that was written last counts. If that is unknown, the pod is
 * ready if either slice says so.
 *
 * @param order Above 0 if the slice of `first` was written last, below 0 if the slice of `second` was.
 */
function newest(first: EndpointConditions, second: EndpointConditions, order: number): EndpointConditions {
  if (sameConditions(first, second)) return first;
  if (first.terminating !== second.terminating) return first.terminating ? first : second;
  if (order !== 0) return order > 0 ? first : second;
  if (first.ready !== second.ready) return first.ready ? first : second;
  return first.serving ? first : second;
}

function sameConditions(a: EndpointConditions, b: EndpointConditions): boolean {
  return a.ready === b.ready && a.serving === b.serving && a.terminating === b.terminating;
}
