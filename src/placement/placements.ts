import type { Balancer } from '../balancer/balancer.js';
import { callLease, type Lease } from '../call/lease.js';
import { Warnings } from '../observe/warnings.js';
import type { Subchannel } from '../pool/subchannel.js';
import type { Clock } from '../runtime/clock.js';
import { drawIndex, type Rng } from '../runtime/rng.js';
import { type PlacedConnection, Placement, PlacementGroup, type PlacementOwner } from './placement-group.js';
import type { ResolvedPlacingOptions } from './placing-options.js';
import { Rebalancing, type Share } from './rebalance.js';

/** What `Placements` needs. */
export interface PlacementsParts {
  /** The balancer, which knows the state of each endpoint and the observer. */
  readonly balancer: Pick<Balancer<never>, 'observer' | 'snapshot'>;
  /** The clock by which leaving is spread over time. */
  readonly clock: Clock;
  /** The source of randomness that chooses which connections move. */
  readonly rng: Rng;
  /** How connections leave, and when they are rebalanced. */
  readonly options: ResolvedPlacingOptions;
}

/**
 * The long-lived connections of a client. An endpoint is picked only once for each, so balance depends on when connections leave.
 *
 * - When an endpoint leaves, the application is notified for each of the endpoint's connections, spread over `leaveSpreadMs`. With
 *   `closeLeaving` the connection is closed at that moment; otherwise at the end of the drain timeout, also one by one. If the endpoint
 *   returns, it keeps the connections that are still open.
 * - With `rebalance`, connections beyond an endpoint's share are moved one by one: the application is notified, or the connections are
 *   closed.
 */
export class Placements implements PlacementOwner {
  readonly #parts: PlacementsParts;
  readonly #groups = new Map<Subchannel<unknown>, PlacementGroup>();
  readonly #rebalancing: Rebalancing | undefined;
  /** Limits how often the observer gets the same warning. */
  readonly warnings: Warnings;
  #total = 0;
  #isClosing = false;

  constructor(parts: PlacementsParts) {
    this.#parts = parts;
    const { clock, rng, options, balancer } = parts;
    this.warnings = new Warnings(balancer.observer, clock);
    if (options.rebalance !== undefined) {
      this.#rebalancing = new Rebalancing({
        clock,
        rng,
        options: options.rebalance,
        total: () => this.#total,
        shares: () => this.#shares(),
        move: (key) => this.#move(key),
      });
    }
  }

  /** The options as they were passed, with defaults filled in. */
  get options(): ResolvedPlacingOptions {
    return this.#parts.options;
  }

  /** The clock that all parts of the client share. */
  get clock(): Clock {
    return this.#parts.clock;
  }

  /** The source of randomness that all parts of the client share. */
  get rng(): Rng {
    return this.#parts.rng;
  }

  /** Whether `close` was called. Then no further connection is added. */
  get isClosing(): boolean {
    return this.#isClosing;
  }

  /** How many connections of the client are open. */
  get size(): number {
    return this.#total;
  }

  /** Adds a connection that is open to the endpoint of `lease`. Returns a function to be called once when the connection is closed. */
  hold(lease: Lease<unknown>, connection: PlacedConnection): () => void {
    const { subchannel } = callLease(lease);
    let group = this.#groups.get(subchannel);
    if (group === undefined) {
      group = new PlacementGroup(subchannel, this);
      this.#groups.set(subchannel, group);
    }
    const placement = new Placement(group, connection);
    group.add(placement);
    this.#total++;
    if (!this.#isClosing) this.#rebalancing?.begin();
    return () => {
      if (!placement.ended()) return;
      this.#total--;
      const { group: left } = placement;
      if (left.size > 0) return;
      left.close();
      this.#groups.delete(subchannel);
    };
  }

  /**
   * The client is closing: from now on the application is notified about all connections at once, and no connection is moved for balance.
   */
  close(): void {
    this.#isClosing = true;
    this.#rebalancing?.stop();
    for (const group of this.#groups.values()) group.closing();
  }

  /** Cuts all connections. */
  cut(): void {
    for (const group of this.#groups.values()) group.cut();
  }

  /** The endpoints that can take connections, and how many each has; undefined while no connection should be moved. */
  #shares(): readonly Share[] | undefined {
    const staying = new Map<string, number>();
    for (const group of this.#groups.values()) {
      // The connections that leave this endpoint will soon arrive at others, so the numbers are about to change.
      if (group.isLeaving) return undefined;
      staying.set(group.key, group.staying.length);
    }
    const shares: Share[] = [];
    for (const { key, weight, state, inFlight, capacity } of this.#parts.balancer.snapshot().endpoints) {
      if (state !== 'ready' || weight <= 0) continue;
      // An endpoint on probation takes only one call at a time, so a connection that is moved now would not arrive there.
      if (capacity !== -1 && inFlight >= capacity) continue;
      shares.push({ key, weight, connections: staying.get(key) ?? 0 });
    }
    return shares;
  }

  /** Makes one connection leave the endpoint with this key. */
  #move(key: string): void {
    const { clock, rng, options } = this.#parts;
    for (const group of this.#groups.values()) {
      if (group.key !== key || group.isLost) continue;
      const { staying } = group;
      const { endpoint } = group.subchannel;
      const untilMs = clock.now() + options.drainTimeoutMs;
      staying[drawIndex(rng, staying.length)]?.askToLeave({ endpoint, untilMs, reason: 'rebalance' });
    }
  }
}
