import { hostPort } from '../../../endpoint/address.js';
import type { Endpoint } from '../../../endpoint/endpoint.js';
import type { Clock, Timer } from '../../../runtime/clock.js';
import { sameEndpoint } from '../../endpoint-list.js';
import type { EndpointUnion } from './slice-union.js';

/** The shortest time between two updates of the set, in ms: even in a storm of changes there are at most 20 updates a second. */
const PACE_MS = 50;
/** How long an endpoint that vanished from all slices stays in the set, in ms. It may be moving from one slice to another. */
const LINGER_MS = 250;
/**
 * How many updates may be published earlier than that because an endpoint must leave the set at once: this many in a row, and this many
 * more per second.
 */
const URGENT_BURST = 20;

/**
 * Decides when a changed set is published. The first change after a pause is published at once, further ones at most every 50 ms. If an
 * endpoint stops being usable, the set is published at once in any case. If an endpoint just vanished from the slices, it stays in the set
 * for 250 ms.
 */
export class UpdateThrottle {
  readonly #clock: Clock;
  readonly #union: () => EndpointUnion;
  readonly #publish: (endpoints: readonly Endpoint[]) => void;
  /**
   * The endpoints of the last published set by `address:port`, including those that vanished from the slices and stay in the set for a
   * moment.
   */
  #published = new Map<string, Endpoint>();
  #last: readonly Endpoint[] | undefined;
  #lastAtMs = Number.NEGATIVE_INFINITY;
  /** The time at which each vanished endpoint leaves the set, in the order in which they vanished. */
  readonly #lingering = new Map<string, number>();
  /** Every `address:port` that has changed since the last published set, with its endpoint as the slices had it last. */
  readonly #dirty = new Map<string, Endpoint | undefined>();
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

  /** Publishes the first complete set now, even if it is empty. */
  start(): void {
    if (this.#closed || this.started) return;
    for (const address of this.#union().addresses) this.#dirty.set(address, undefined);
    this.#flush();
  }

  /** Says that the endpoints at these addresses may have changed. Called at most once per turn of the event loop. */
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
      if (before !== undefined && after === undefined && mayReturn(this.#dirty.get(address) ?? before)) {
        this.#dirty.delete(address);
        if (!this.#lingering.has(address)) this.#lingering.set(address, this.#clock.now() + LINGER_MS);
        continue;
      }
      this.#dirty.set(address, after);
      urgent ||= before !== undefined && after !== undefined && mustLeave(before, after);
    }
    this.#watchLingering();
    this.#pace(urgent);
  }

  /** A connection to an endpoint failed: endpoints that have vanished from the slices leave the set now. */
  dropLingering(): void {
    if (this.#closed || this.#lingering.size === 0) return;
    for (const address of this.#lingering.keys()) this.#dirty.set(address, undefined);
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
    for (const address of this.#dirty.keys()) {
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

  /** Returns the whole set in order: the endpoints in the slices, and those that have vanished and stay for a moment. */
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
   * Adds the vanished endpoints that stay for a moment. A pod that lost one of its two addresses is now listed at the other one; its
   * endpoint stays as it was for that moment, unless the pod stopped being ready.
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
      this.#dirty.set(address, undefined);
    }
    this.#watchLingering();
    this.#pace(false);
  }
}

/** Whether an endpoint that is no longer in any slice may be moving to another slice. One that is terminating is not. */
function mayReturn({ conditions }: Endpoint): boolean {
  return conditions.ready && !conditions.terminating;
}

/** Whether one of the endpoint's addresses now belongs to another pod. */
function isTaken({ uid, address, otherAddress, port }: Endpoint, union: EndpointUnion): boolean {
  const isOthers = (each: string | undefined): boolean =>
    each !== undefined && union.hasOther(hostPort(each, port), uid);
  return isOthers(address) || isOthers(otherAddress);
}

/**
 * Whether an endpoint may get fewer requests than before: it stopped being ready or serving, or its address belongs to a different pod
 * now.
 */
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
