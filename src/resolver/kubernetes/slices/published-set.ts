import { hostPort } from '../../../endpoint/address.js';
import { endpointAppProtocol } from '../../../endpoint/app-protocol.js';
import { Attributes } from '../../../endpoint/attributes.js';
import { createEndpoint, type Endpoint, type EndpointConditions } from '../../../endpoint/endpoint.js';
import type { Clock, Timer } from '../../../runtime/clock.js';
import { sameDescription } from '../../endpoint-list.js';
import type { AddressFamily } from '../../host-families.js';
import type { EndpointSlice, SliceMember, SlicePort } from './endpoint-slice.js';

/** The shortest time between two updates of the set, in ms: even in a storm of changes there are at most 20 updates a second. */
const PACE_MS = 50;
/** How long an endpoint that vanished from all slices stays in the set, in ms. It may be moving from one slice to another (S9). */
const LINGER_MS = 250;
/** How many updates may come earlier because an endpoint must not be used any longer: this many in a row, and this many per second. */
const URGENT_BURST = 20;

/** A port to use for a slice's members. */
export type ChosenPort = Pick<SlicePort, 'port' | 'appProtocol'>;

/** What one balancer takes from the slices of its Service. */
export interface SliceChoice {
  /** The address families, with the one that is dialed first in front. With both, the two addresses of a pod are one endpoint. */
  readonly families: readonly AddressFamily[];
  /** The family that is used for entries that cannot be joined: without a uid, or with several addresses of one family. */
  readonly lone: AddressFamily;
  /** The ports to use for a slice's members; no number twice. */
  ports(slice: EndpointSlice): readonly ChosenPort[];
  /** Whether an entry of a slice may be used. */
  accepts(member: SliceMember): boolean;
}

/** One member of a slice on one port. */
interface Entry {
  readonly at: string;
  /** Identifies the pod on this port: by its uid, or by its address if that is unknown. */
  readonly pod: string;
  readonly slice: EndpointSlice;
  readonly member: SliceMember;
  readonly port: ChosenPort;
}

/** The entries that count for the pods, by `address:port`, and the endpoints made of them, by pod. */
interface Computed {
  readonly winners: ReadonlyMap<string, Entry>;
  readonly endpoints: Map<string, Endpoint>;
}

/**
 * The endpoints in the slices of a Service, as a set that is published. Whenever it publishes, it computes the whole set from all slices and
 * from what it published last; between two publications it only notes what must not wait.
 */
export class PublishedSet {
  readonly #clock: Clock;
  readonly #publish: (endpoints: readonly Endpoint[]) => void;
  #choice: SliceChoice | undefined;
  readonly #slices = new Map<string, EndpointSlice>();
  /** The entries of each slice under the current choice, by the slice's name. */
  readonly #entries = new Map<string, readonly Entry[]>();
  /** How many slices list each `address:port`; and since when those that none lists any longer are gone, while they may return. */
  readonly #listings = new Map<string, number>();
  readonly #goneSinceMs = new Map<string, number>();
  /** The endpoints of the last publication, by pod and by each `address:port`. */
  #byPod: ReadonlyMap<string, Endpoint> = new Map();
  #byAddress: ReadonlyMap<string, Endpoint> = new Map();
  #last: readonly Endpoint[] | undefined;
  #publishedAtMs = Number.NEGATIVE_INFINITY;
  /** Whether an endpoint may get fewer calls than before because of what changed since the last publication. */
  #isUrgent = false;
  #turns = URGENT_BURST;
  #turnsAtMs = 0;
  #timer: Timer | undefined;
  #dueMs = 0;
  #isClosed = false;

  constructor(clock: Clock, publish: (endpoints: readonly Endpoint[]) => void) {
    this.#clock = clock;
    this.#publish = publish;
  }

  /** Whether any set has been published. */
  get started(): boolean {
    return this.#last !== undefined;
  }

  /** Says what to take from the slices from now on. */
  choose(choice: SliceChoice): void {
    this.#choice = choice;
    for (const [name, slice] of this.#slices) this.#list(name, entriesOf(slice, choice));
  }

  /** Replaces a slice; undefined removes it. Takes effect in the next call of `settle`. */
  put(name: string, slice: EndpointSlice | undefined): void {
    if (slice === undefined) this.#slices.delete(name);
    else this.#slices.set(name, slice);
    this.#list(name, entriesOf(slice, this.#choice));
  }

  /** Everything that happened in this turn of the event loop was put: publishes now, or soon. */
  settle(): void {
    if (this.#isClosed) return;
    const isUrgent = this.#isUrgent;
    const nowMs = this.#clock.now();
    const dueMs = this.#publishedAtMs + PACE_MS;
    this.#isUrgent = false;
    // What is due anyway takes no turn, or harmless changes would use up the turns of those that must not wait.
    if (dueMs <= nowMs || (isUrgent && this.#takeTurn(nowMs))) this.#flush(nowMs);
    else this.#schedule(dueMs);
  }

  /** A connection to an endpoint failed: endpoints that have vanished from the slices leave the set now. */
  dropVanished(): void {
    if (this.#goneSinceMs.size === 0) return;
    this.#goneSinceMs.clear();
    this.settle();
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  /** Replaces the entries of a slice, and notes what must be published at once. */
  #list(name: string, after: readonly Entry[]): void {
    const before = this.#entries.get(name) ?? [];
    if (after.length === 0) this.#entries.delete(name);
    else this.#entries.set(name, after);
    for (const { at, member } of after) {
      this.#listings.set(at, (this.#listings.get(at) ?? 0) + 1);
      this.#goneSinceMs.delete(at);
      const published = this.#byAddress.get(at);
      if (published === undefined) continue;
      this.#isUrgent ||= published.uid !== member.uid || rank(member.conditions) < rank(published.conditions);
    }
    const nowMs = this.#clock.now();
    const stays = new Set(after.map(({ at }) => at));
    for (const { at, member } of before) {
      const left = (this.#listings.get(at) as number) - 1;
      if (left > 0) {
        this.#listings.set(at, left);
        // Another slice still lists the address, and its entry, which counts from now on, may be one that must not be used.
        this.#isUrgent ||= !stays.has(at) && this.#byAddress.has(at);
        continue;
      }
      this.#listings.delete(at);
      if (mayReturn(member.conditions) && this.#byAddress.has(at)) this.#goneSinceMs.set(at, nowMs);
    }
  }

  #takeTurn(nowMs: number): boolean {
    this.#turns = Math.min(URGENT_BURST, this.#turns + ((nowMs - this.#turnsAtMs) / 1_000) * URGENT_BURST);
    this.#turnsAtMs = nowMs;
    if (this.#turns < 1) return false;
    this.#turns--;
    return true;
  }

  #schedule(dueMs: number): void {
    if (this.#timer !== undefined && this.#dueMs <= dueMs) return;
    this.#timer?.cancel();
    this.#dueMs = dueMs;
    this.#timer = this.#clock.timer(() => this.#fire(), Math.max(0, dueMs - this.#clock.now()));
  }

  #fire(): void {
    this.#timer = undefined;
    const nowMs = this.#clock.now();
    const dueMs = this.#publishedAtMs + PACE_MS;
    if (dueMs > nowMs) this.#schedule(dueMs);
    else this.#flush(nowMs);
  }

  #flush(nowMs: number): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const { winners, endpoints } = this.#compute();
    this.#addVanished(winners, endpoints, nowMs);
    const [first] = this.#goneSinceMs.values();
    if (first !== undefined) this.#schedule(first + LINGER_MS);
    const order = this.#inOrder(endpoints);
    const list = Object.freeze(order.map(({ endpoint }) => endpoint));
    if (this.#last !== undefined && sameList(this.#last, list)) return;
    this.#last = list;
    this.#publishedAtMs = nowMs;
    const byAddress = new Map<string, Endpoint>();
    for (const { endpoint, at } of order) {
      byAddress.set(at, endpoint);
      if (endpoint.otherAddress !== undefined) byAddress.set(hostPort(endpoint.otherAddress, endpoint.port), endpoint);
    }
    this.#byAddress = byAddress;
    this.#byPod = new Map(order.map(({ id, endpoint }) => [id, endpoint]));
    this.#publish(list);
  }

  /** Makes the endpoints of all slices (S1, S3, U6, U7). An endpoint stays the same object as long as nothing about it changes. */
  #compute(): Computed {
    const winners = new Map<string, Entry>();
    for (const entries of this.#entries.values()) {
      for (const entry of entries) {
        const present = winners.get(entry.at);
        if (present === undefined || beats(entry, present)) winners.set(entry.at, entry);
      }
    }
    const endpoints = new Map<string, Endpoint>();
    const { families, lone } = this.#choice as SliceChoice;
    const apart = (entries: readonly Entry[]): void => {
      for (const entry of entries) endpoints.set(entry.at, this.#endpointOf(entry.at, entry));
    };
    /** The first entry of each pod, and all entries of those that have several. */
    const pods = new Map<string, Entry>();
    const several = new Map<string, Entry[]>();
    for (const entry of winners.values()) {
      if (entry.member.uid === undefined) {
        if (entry.slice.family === lone) apart([entry]);
        continue;
      }
      const one = pods.get(entry.pod);
      if (one === undefined) pods.set(entry.pod, entry);
      else several.set(entry.pod, [...(several.get(entry.pod) ?? [one]), entry]);
    }
    for (const [id, one] of pods) {
      const all = several.get(id);
      if (all === undefined) {
        endpoints.set(id, this.#endpointOf(id, one));
        continue;
      }
      const first = all.filter(({ slice }) => slice.family === families[0]);
      const second = all.filter(({ slice }) => slice.family !== families[0]);
      if (first.length === 1 && second.length === 1)
        endpoints.set(id, this.#endpointOf(id, first[0] as Entry, second[0]));
      else {
        const [chosen, others] = lone === families[0] ? [first, second] : [second, first];
        const listed = chosen.length > 0 ? chosen : others;
        if (listed.length === 1) endpoints.set(id, this.#endpointOf(id, listed[0] as Entry));
        else apart(listed);
      }
    }
    return { winners, endpoints };
  }

  /** Sorts the endpoints by address and port (S10). Most keep their places, and to sort what is nearly sorted takes little time. */
  #inOrder(endpoints: ReadonlyMap<string, Endpoint>): { id: string; endpoint: Endpoint; at: string }[] {
    const order: { id: string; endpoint: Endpoint; at: string }[] = [];
    const add = (id: string, endpoint: Endpoint): unknown =>
      order.push({ id, endpoint, at: hostPort(endpoint.address, endpoint.port) });
    for (const id of this.#byPod.keys()) {
      const endpoint = endpoints.get(id);
      if (endpoint !== undefined) add(id, endpoint);
    }
    if (order.length < endpoints.size)
      for (const [id, endpoint] of endpoints) if (!this.#byPod.has(id)) add(id, endpoint);
    return order.sort((a, b) => (a.at < b.at ? -1 : 1));
  }

  /** The endpoint of a pod with one or two addresses. It keeps its key as long as the pod keeps one of its addresses. */
  #endpointOf(id: string, { slice, member, port: { port, appProtocol } }: Entry, other?: Entry): Endpoint {
    const present = this.#byPod.get(id);
    const before = present?.uid === member.uid ? present : undefined;
    const conditions = other === undefined ? member.conditions : newest(slice, member, other);
    const otherAddress = other?.member.address;
    const isSame =
      before !== undefined &&
      before.address === member.address &&
      before.otherAddress === otherAddress &&
      before.attributes.get(endpointAppProtocol) === appProtocol &&
      sameDescription(before, conditions === member.conditions ? member : { ...member, conditions });
    if (isSame) return before;
    const attributes =
      appProtocol === undefined ? Attributes.empty : Attributes.empty.with(endpointAppProtocol, appProtocol);
    const endpoint = createEndpoint({ ...member, otherAddress, port, conditions, attributes });
    const isKept = before !== undefined && addressesOf(before).some((at) => addressesOf(endpoint).includes(at));
    return isKept && before.key !== endpoint.key ? Object.freeze({ ...endpoint, key: before.key }) : endpoint;
  }

  /**
   * Keeps endpoints that vanished a moment ago, unless another pod has one of their addresses. A pod that lost one of its two addresses
   * stays as it was for that moment, unless it is no longer ready.
   */
  #addVanished(winners: ReadonlyMap<string, Entry>, endpoints: Map<string, Endpoint>, nowMs: number): void {
    for (const [at, sinceMs] of this.#goneSinceMs) if (sinceMs + LINGER_MS <= nowMs) this.#goneSinceMs.delete(at);
    if (this.#goneSinceMs.size === 0) return;
    const keys = new Set([...endpoints.values()].map(({ key }) => key));
    for (const [id, before] of this.#byPod) {
      const now = endpoints.get(id);
      if (now?.key !== before.key && keys.has(before.key)) continue;
      if (now === before || !mayReturn(before.conditions) || (now !== undefined && !mayReturn(now.conditions)))
        continue;
      const addresses = addressesOf(before);
      const isTaken = addresses.some((at) => winners.has(at) && winners.get(at)?.member.uid !== before.uid);
      if (!isTaken && addresses.some((at) => this.#goneSinceMs.has(at))) endpoints.set(id, before);
    }
  }
}

function entriesOf(slice: EndpointSlice | undefined, choice: SliceChoice | undefined): Entry[] {
  const entries: Entry[] = [];
  if (slice?.family === undefined || choice?.families.includes(slice.family) !== true) return entries;
  for (const port of choice.ports(slice)) {
    for (const member of slice.members) {
      if (!choice.accepts(member)) continue;
      const at = hostPort(member.address, port.port);
      entries.push({ at, pod: member.uid === undefined ? at : `${port.port}#${member.uid}`, slice, member, port });
    }
  }
  return entries;
}

/**
 * Whether entry `a` counts rather than `b`, for the same address (U6). An entry that is not terminating is better than one that is; then a
 * ready one is better than one that is not; then the newer slice counts, then the slice's name. Two entries of one slice are compared by
 * uid and then by `serving`, so that the result does not depend on their order.
 */
function beats(a: Entry, b: Entry): boolean {
  const [x, y] = [a.member.conditions, b.member.conditions];
  if (x.terminating !== y.terminating) return !x.terminating;
  if (x.ready !== y.ready) return x.ready;
  const versions = compareVersions(a.slice.version, b.slice.version);
  if (versions !== 0) return versions > 0;
  if (a.slice.name !== b.slice.name) return a.slice.name > b.slice.name;
  const [p, q] = [a.member.uid ?? '', b.member.uid ?? ''];
  return p === q ? x.serving && !y.serving : p > q;
}

/** Compares two resource versions of Kubernetes. Versions that are decimal integers can be compared; all others count as equal. */
function compareVersions(a: string, b: string): number {
  if (!/^\d+$/.test(a) || !/^\d+$/.test(b)) return 0;
  return a.length === b.length ? (a < b ? -1 : a > b ? 1 : 0) : a.length - b.length;
}

/**
 * Decides the state of a pod if its IPv4 slice and its IPv6 slice say different things, because one was not written yet. A pod that
 * terminates never stops doing so, so that counts first. Otherwise the slice that was written last counts. If that is unknown, the pod is
 * ready if either slice says so.
 */
function newest(slice: EndpointSlice, { conditions: first }: SliceMember, other: Entry): EndpointConditions {
  const second = other.member.conditions;
  if (first.terminating !== second.terminating) return first.terminating ? first : second;
  const order = compareVersions(slice.version, other.slice.version);
  if (order !== 0) return order > 0 ? first : second;
  if (first.ready !== second.ready) return first.ready ? first : second;
  return first.serving ? first : second;
}

/** Whether an endpoint that is no longer in any slice may be moving to another slice. One that is terminating is not. */
function mayReturn({ ready, terminating }: EndpointConditions): boolean {
  return ready && !terminating;
}

function rank({ ready, serving, terminating }: EndpointConditions): number {
  return ready ? 2 : serving && terminating ? 1 : 0;
}

function addressesOf({ address, otherAddress, port }: Endpoint): readonly string[] {
  return otherAddress === undefined
    ? [hostPort(address, port)]
    : [hostPort(address, port), hostPort(otherAddress, port)];
}

function sameList(a: readonly Endpoint[], b: readonly Endpoint[]): boolean {
  return a.length === b.length && a.every((endpoint, index) => endpoint === b[index]);
}
