import { hostPort } from '../../../endpoint/address.js';
import { endpointAppProtocol } from '../../../endpoint/app-protocol.js';
import { Attributes } from '../../../endpoint/attributes.js';
import { createEndpoint, type Endpoint, type EndpointConditions } from '../../../endpoint/endpoint.js';
import type { Clock, Timer } from '../../../runtime/clock.js';
import { TokenBucket } from '../../../runtime/token-bucket.js';
import { sameDescription } from '../../endpoint-list.js';
import type { AddressFamily } from '../../host-families.js';
import type { EndpointSlice, SliceMember, SlicePort } from './endpoint-slice.js';

/** The shortest time between two updates of the set, in ms: even in a storm of changes there are at most 20 updates a second. */
const PACE_MS = 50;
/**
 * How long an endpoint that vanished from all slices stays in the set, in ms. It may be moving from one slice to another (S9); if no
 * endpoint is listed, for longer. If there is no slice at all, the Service was deleted, perhaps to be created again: its pods still answer,
 * and nobody else would. All leave at once when a connection to any fails (`dropVanished`), since that pod may be gone, and its address may
 * be given to a pod of another Service.
 */
const LINGER_MS = 250;
const EMPTY_LINGER_MS = 1_000;
const DELETED_LINGER_MS = 30_000;
/** How many updates may come earlier because an endpoint must not be used any longer: this many in a row, and this many per second. */
const URGENT_BURST = 20;

/** A port to use for a slice's members. */
export type ChosenPort = Pick<SlicePort, 'port' | 'appProtocol'>;

/** What one balancer takes from the slices of its Service. */
export interface SliceChoice {
  /** The address families, with the preferred one in front. With both, the two addresses of a pod are one endpoint. */
  readonly families: readonly AddressFamily[];
  /** The only family in which entries with a uid count; undefined = all in `families`. */
  readonly only?: AddressFamily | undefined;
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

/** An endpoint of the set, and the entries it was made of. It stays the same object as long as nothing about it changes. */
interface Made {
  readonly id: string;
  readonly endpoint: Endpoint;
  readonly at: string;
  readonly otherAt: string | undefined;
  readonly entry: Entry;
  readonly other: Entry | undefined;
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
  /** How many entries there are in all, for each `address:port`, and for each pod. Mostly each has one, and then nothing is compared. */
  #total = 0;
  readonly #listings = new Map<string, number>();
  readonly #podListings = new Map<string, number>();
  /** Since when each `address:port` that no slice lists any longer is gone, while it may return. */
  readonly #goneSinceMs = new Map<string, number>();
  /** The endpoints of the last publication, in order, by pod, and by each `address:port`. */
  #last: readonly Made[] | undefined;
  #byPod: ReadonlyMap<string, Made> = new Map();
  readonly #byAddress = new Map<string, Endpoint>();
  #publishedAtMs = Number.NEGATIVE_INFINITY;
  /** Whether an endpoint may get fewer calls than before because of what changed since the last publication. */
  #isUrgent = false;
  readonly #turns = new TokenBucket(URGENT_BURST, URGENT_BURST);
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
    if (dueMs <= nowMs || (isUrgent && this.#turns.take(nowMs))) this.#flush(nowMs);
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
    this.#total += after.length - before.length;
    for (const { at, pod, member } of after) {
      this.#listings.set(at, (this.#listings.get(at) ?? 0) + 1);
      this.#podListings.set(pod, (this.#podListings.get(pod) ?? 0) + 1);
      this.#goneSinceMs.delete(at);
      const published = this.#byAddress.get(at);
      if (published === undefined) continue;
      this.#isUrgent ||= published.uid !== member.uid || rank(member.conditions) < rank(published.conditions);
    }
    const nowMs = this.#clock.now();
    const stays = new Set(after.map(({ at }) => at));
    for (const { at, pod, member } of before) {
      const podLeft = (this.#podListings.get(pod) as number) - 1;
      if (podLeft > 0) this.#podListings.set(pod, podLeft);
      else this.#podListings.delete(pod);
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
    const made = this.#compute();
    this.#addVanished(made, nowMs);
    const [first] = this.#goneSinceMs.values();
    if (first !== undefined) this.#schedule(first + this.#lingerMs);
    const before = this.#last ?? [];
    const gone = before.filter((one) => made.get(one.id) !== one);
    if (this.#last !== undefined && gone.length === 0 && before.length === made.size) return;
    const order = this.#inOrder(made);
    for (const { at, otherAt } of gone) {
      this.#byAddress.delete(at);
      if (otherAt !== undefined) this.#byAddress.delete(otherAt);
    }
    for (const one of order) {
      if (this.#byPod.get(one.id) === one) continue;
      this.#byAddress.set(one.at, one.endpoint);
      if (one.otherAt !== undefined) this.#byAddress.set(one.otherAt, one.endpoint);
    }
    this.#last = order;
    this.#byPod = made;
    this.#publishedAtMs = nowMs;
    this.#publish(Object.freeze(order.map(({ endpoint }) => endpoint)));
  }

  /** Makes the endpoints of all slices (S1, S3, U6, U7). */
  #compute(): Map<string, Made> {
    const made = new Map<string, Made>();
    const { families } = this.#choice as SliceChoice;
    const apart = (entries: readonly Entry[]): void => {
      for (const entry of entries) made.set(entry.at, this.#make(entry.at, entry));
    };
    /** The first entry of each pod, and all entries of those that have several. */
    const pods = new Map<string, Entry>();
    const several = new Map<string, Entry[]>();
    const unjoined: Entry[] = [];
    const isEachAlone = this.#podListings.size === this.#total;
    for (const entries of this.#winners()) {
      for (const entry of entries) {
        const { member, pod } = entry;
        if (member.uid === undefined) unjoined.push(entry);
        else if (isEachAlone) made.set(pod, this.#make(pod, entry));
        else {
          const one = pods.get(pod);
          if (one === undefined) pods.set(pod, entry);
          else several.set(pod, [...(several.get(pod) ?? [one]), entry]);
        }
      }
    }
    apart(inOneFamily(unjoined, families));
    for (const [id, one] of pods) {
      const all = several.get(id);
      if (all === undefined) {
        made.set(id, this.#make(id, one));
        continue;
      }
      const first = all.filter(({ slice }) => slice.family === families[0]);
      const second = all.filter(({ slice }) => slice.family !== families[0]);
      const listed = first.length > 0 ? first : second;
      if (first.length === 1 && second.length === 1) made.set(id, this.#make(id, first[0] as Entry, second[0]));
      else if (listed.length === 1) made.set(id, this.#make(id, listed[0] as Entry));
      else apart(listed);
    }
    return made;
  }

  /** The entries that count, of several for one `address:port` the best (U6). */
  #winners(): Iterable<Iterable<Entry>> {
    return this.#listings.size === this.#total ? this.#entries.values() : [this.#winnersByAddress().values()];
  }

  #winnersByAddress(): ReadonlyMap<string, Entry> {
    const winners = new Map<string, Entry>();
    for (const entries of this.#entries.values()) {
      for (const entry of entries) {
        const present = winners.get(entry.at);
        if (present === undefined || beats(entry, present)) winners.set(entry.at, entry);
      }
    }
    return winners;
  }

  /** Sorts the endpoints by address and port (S10). Most keep their places, and to sort what is nearly sorted takes little time. */
  #inOrder(made: ReadonlyMap<string, Made>): Made[] {
    const order: Made[] = [];
    for (const { id } of this.#last ?? []) {
      const one = made.get(id);
      if (one !== undefined) order.push(one);
    }
    if (order.length < made.size) for (const one of made.values()) if (!this.#byPod.has(one.id)) order.push(one);
    return order.sort((a, b) => (a.at < b.at ? -1 : 1));
  }

  /** The endpoint of a pod with one or two addresses. It keeps its key as long as the pod keeps one of its addresses. */
  #make(id: string, entry: Entry, other?: Entry): Made {
    const present = this.#byPod.get(id);
    if (present !== undefined && present.entry === entry && present.other === other) return present;
    const { slice, member, port } = entry;
    const before = present?.endpoint.uid === member.uid ? present?.endpoint : undefined;
    const conditions = other === undefined ? member.conditions : newest(slice, member, other);
    const otherAddress = other?.member.address;
    const isSame =
      before !== undefined &&
      before.address === member.address &&
      before.otherAddress === otherAddress &&
      before.port === port.port &&
      before.attributes.get(endpointAppProtocol) === port.appProtocol &&
      sameDescription(before, conditions === member.conditions ? member : { ...member, conditions });
    if (isSame) return present as Made;
    const attributes =
      port.appProtocol === undefined ? Attributes.empty : Attributes.empty.with(endpointAppProtocol, port.appProtocol);
    const created = createEndpoint({ ...member, otherAddress, port: port.port, conditions, attributes });
    const isKept = before !== undefined && addressesOf(before).some((at) => addressesOf(created).includes(at));
    const endpoint = isKept && before.key !== created.key ? Object.freeze({ ...created, key: before.key }) : created;
    return { id, endpoint, at: entry.at, otherAt: other?.at, entry, other };
  }

  /** How long endpoints stay that vanished. */
  get #lingerMs(): number {
    if (this.#slices.size === 0) return DELETED_LINGER_MS;
    return this.#listings.size === 0 ? EMPTY_LINGER_MS : LINGER_MS;
  }

  /**
   * Keeps endpoints that vanished a moment ago, unless another pod has one of their addresses. A pod that lost one of its two addresses
   * stays as it was for that moment, unless it is no longer ready.
   */
  #addVanished(made: Map<string, Made>, nowMs: number): void {
    const lingerMs = this.#lingerMs;
    for (const [at, sinceMs] of this.#goneSinceMs) if (sinceMs + lingerMs <= nowMs) this.#goneSinceMs.delete(at);
    if (this.#goneSinceMs.size === 0) return;
    // Both are made only when they are needed, because each takes time in proportion to the whole set.
    let keys: ReadonlySet<string> | undefined;
    let winners: ReadonlyMap<string, Entry> | undefined;
    for (const [id, present] of this.#byPod) {
      const { at, otherAt, endpoint: before } = present;
      if (!this.#goneSinceMs.has(at) && (otherAt === undefined || !this.#goneSinceMs.has(otherAt))) continue;
      const now = made.get(id)?.endpoint;
      if (now === before || !mayReturn(before.conditions) || (now !== undefined && !mayReturn(now.conditions)))
        continue;
      keys ??= new Set([...made.values()].map(({ endpoint }) => endpoint.key));
      if (now?.key !== before.key && keys.has(before.key)) continue;
      const listed = addressesOf(before).filter((address) => this.#listings.has(address));
      if (listed.length > 0) winners ??= this.#winnersByAddress();
      if (listed.every((address) => winners?.get(address)?.member.uid === before.uid)) made.set(id, present);
    }
  }
}

/**
 * Entries without a uid may be the same pods in both families, so those of one family count: that with a usable entry (U1, then U2), the
 * preferred one if both have any or none has. An entry that must not be used hides none of the other family.
 */
function inOneFamily(entries: readonly Entry[], [first, second]: readonly AddressFamily[]): readonly Entry[] {
  if (second === undefined || entries.length === 0) return entries;
  let best = first;
  let bestRank = -1;
  for (const { slice, member } of entries) {
    const its = rank(member.conditions);
    if (its < bestRank || (its === bestRank && slice.family !== first)) continue;
    bestRank = its;
    best = slice.family;
  }
  return entries.filter(({ slice }) => slice.family === best);
}

function entriesOf(slice: EndpointSlice | undefined, choice: SliceChoice | undefined): Entry[] {
  const entries: Entry[] = [];
  if (slice?.family === undefined || choice?.families.includes(slice.family) !== true) return entries;
  for (const port of choice.ports(slice)) {
    for (const member of slice.members) {
      if (!choice.accepts(member)) continue;
      if (member.uid !== undefined && choice.only !== undefined && slice.family !== choice.only) continue;
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
