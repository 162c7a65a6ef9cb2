import { hostPort } from '../../../endpoint/address.js';
import type { Endpoint } from '../../../endpoint/endpoint.js';
import type { Clock, Timer } from '../../../runtime/clock.js';
import { sameEndpoint } from '../../endpoint-list.js';
import type { EndpointUnion } from './slice-union.js';

/** Minimum time between updates of the set, in ms, so that a storm of changes causes at most 20 a second. */
const PACE_MS = 50;
/** How long an endpoint that vanished from all slices stays in the set, in ms: it may be moving to another slice. */
const LINGER_MS = 250;
/** Extra updates of the set for endpoints that must leave at once: this many at a time, refilled by as many per second. */
const URGENT_BURST = 20;

/**
 * Decides when a changed union of slices is published: at once after a pause, otherwise at most every `PACE_MS`; always at once when a
 * listed endpoint stops being usable; and after `LINGER_MS` when an endpoint merely vanished.
 */
export class UpdateThrottle {
  readonly #clock: Clock;
  readonly #union: () => EndpointUnion;
  readonly #publish: (endpoints: readonly Endpoint[]) => void;
  /** The last published set by `address:port`, including endpoints that have vanished from the slices and stay for a moment. */
  #published = new Map<string, Endpoint>();
  #last: readonly Endpoint[] | undefined;
  #lastAtMs = Number.NEGATIVE_INFINITY;
  /** When each vanished endpoint must leave the set, in the order they vanished. */
  readonly #lingering = new Map<string, number>();
  /** Every `address:port` that has changed and is not yet published. */
  readonly #dirty = new Set<string>();
  #paceTimer: Timer | undefined;
  #lingerTimer: Timer | undefined;
  #urgentLeft = URGENT_BURST;
  #urgentAtMs = 0;
  #closed = false;

  constructor(clock: Clock, union: () => EndpointUnion, publish: (endpoints: readonly Endpoint[]) => void) {
    this.#clock = clock;
    this.#union = union;
    this.#publish = publish;
  }

  /** Whether any set has been published. */
  get started(): boolean {
    return this.#last !== undefined;
  }

  /** Publishes the first complete state now, even if it is empty. */
  start(): void {
    if (this.#closed || this.started) return;
    for (const address of this.#union().addresses) this.#dirty.add(address);
    this.#flush();
  }

  /** The endpoints of these addresses may have changed. Called once per turn. */
  changed(addresses: Iterable<string>): void {
    if (this.#closed || !this.started) return;
    const union = this.#union();
    let urgent = false;
    for (const address of addresses) {
      const before = this.#published.get(address);
      const after = union.at(address);
      if (after !== undefined) this.#lingering.delete(address);
      if (before === after || (before !== undefined && after !== undefined && sameEndpoint(before, after))) {
        this.#dirty.delete(address);
        continue;
      }
      if (before !== undefined && after === undefined && mayReturn(before)) {
        this.#dirty.delete(address);
        if (!this.#lingering.has(address)) this.#lingering.set(address, this.#clock.now() + LINGER_MS);
        continue;
      }
      this.#dirty.add(address);
      urgent ||= before !== undefined && after !== undefined && mustLeave(before, after);
    }
    this.#watchLingering();
    this.#pace(urgent);
  }

  /** A connection to an endpoint failed: those that have vanished from the slices are not worth trying, and leave the set. */
  dropLingering(): void {
    if (this.#closed || this.#lingering.size === 0) return;
    for (const address of this.#lingering.keys()) this.#dirty.add(address);
    this.#lingering.clear();
    this.#watchLingering();
    this.#pace(false);
  }

  close(): void {
    this.#closed = true;
    this.#paceTimer?.cancel();
    this.#lingerTimer?.cancel();
  }

  #pace(urgent: boolean): void {
    if (this.#dirty.size === 0) return;
    const waitMs = this.#lastAtMs + PACE_MS - this.#clock.now();
    if (waitMs <= 0 || (urgent && this.#takeUrgent())) this.#flush();
    else this.#paceTimer ??= this.#clock.timer(() => this.#flush(), waitMs);
  }

  #takeUrgent(): boolean {
    const now = this.#clock.now();
    this.#urgentLeft = Math.min(URGENT_BURST, this.#urgentLeft + ((now - this.#urgentAtMs) / 1_000) * URGENT_BURST);
    this.#urgentAtMs = now;
    if (this.#urgentLeft < 1) return false;
    this.#urgentLeft -= 1;
    return true;
  }

  #flush(): void {
    this.#paceTimer?.cancel();
    this.#paceTimer = undefined;
    const union = this.#union();
    for (const address of this.#dirty) {
      const endpoint = union.at(address);
      if (endpoint === undefined) this.#published.delete(address);
      else this.#published.set(address, endpoint);
    }
    this.#dirty.clear();
    const endpoints = this.#collect(union);
    if (this.#last !== undefined && sameList(this.#last, endpoints)) return;
    this.#last = endpoints;
    this.#lastAtMs = this.#clock.now();
    this.#publish(endpoints);
  }

  /** Everything that is in the set, in order: the union of the slices, and endpoints that have vanished and stay for a moment. */
  #collect(union: EndpointUnion): readonly Endpoint[] {
    const endpoints: Endpoint[] = [];
    for (const address of union.addresses) {
      const endpoint = this.#published.get(address);
      if (endpoint !== undefined) endpoints.push(endpoint);
    }
    if (this.#lingering.size > 0) this.#addLingering(endpoints, union);
    return Object.freeze(endpoints);
  }

  /**
   * Adds the vanished endpoints that stay for a moment. A pod that lost one of its two addresses is listed at the other: its endpoint stays
   * as it was, unless the pod stopped being ready.
   */
  #addLingering(endpoints: Endpoint[], union: EndpointUnion): void {
    const byKey = new Map(endpoints.map((endpoint, index) => [endpoint.key, index]));
    for (const address of this.#lingering.keys()) {
      const endpoint = this.#published.get(address);
      if (endpoint === undefined || isTaken(endpoint, union)) continue;
      const index = byKey.get(endpoint.key);
      if (index === undefined) byKey.set(endpoint.key, endpoints.push(endpoint) - 1);
      else if (mayReturn(endpoints[index] as Endpoint)) endpoints[index] = endpoint;
    }
    endpoints.sort(byAddress);
  }

  #watchLingering(): void {
    this.#lingerTimer?.cancel();
    this.#lingerTimer = undefined;
    const next = this.#lingering.values().next();
    if (next.done) return;
    this.#lingerTimer = this.#clock.timer(() => this.#expire(), Math.max(0, next.value - this.#clock.now()));
  }

  #expire(): void {
    this.#lingerTimer = undefined;
    const now = this.#clock.now();
    for (const [address, untilMs] of this.#lingering) {
      if (untilMs > now) break;
      this.#lingering.delete(address);
      this.#dirty.add(address);
    }
    this.#watchLingering();
    this.#pace(false);
  }
}

/** Whether an endpoint that no slice lists any more may be moving to another slice. A terminating endpoint is not. */
function mayReturn({ conditions }: Endpoint): boolean {
  return conditions.ready && !conditions.terminating;
}

/** Whether one of an endpoint's addresses belongs to another pod now. */
function isTaken({ uid, address, otherAddress, port }: Endpoint, union: EndpointUnion): boolean {
  const isOthers = (each: string | undefined): boolean =>
    each !== undefined && union.hasOther(hostPort(each, port), uid);
  return isOthers(address) || isOthers(otherAddress);
}

/** Whether an endpoint gets fewer requests in its new state: it stopped being ready or serving, or is a different pod. */
function mustLeave(before: Endpoint, after: Endpoint): boolean {
  return before.key !== after.key || rank(after) < rank(before);
}

function rank({ conditions: { ready, serving, terminating } }: Endpoint): number {
  return ready ? 2 : serving && terminating ? 1 : 0;
}

function byAddress(a: Endpoint, b: Endpoint): number {
  return hostPort(a.address, a.port) < hostPort(b.address, b.port) ? -1 : 1;
}

function sameList(a: readonly Endpoint[], b: readonly Endpoint[]): boolean {
  return a.length === b.length && a.every((endpoint, index) => endpoint === b[index]);
}
