import { Warnings } from '../observe/warnings.js';
import type { Leaving } from '../pool/leave-notice.js';
import type { Subchannel } from '../pool/subchannel.js';
import type { Clock, Timer } from '../runtime/clock.js';
import { drawIndex, type Rng } from '../runtime/rng.js';
import type { Balancer } from './balancer.js';
import type { Lease } from './lease.js';
import type { ConnectionLeaving, ResolvedPlacingOptions } from './placing-options.js';
import { Rebalancing, type Share } from './rebalance.js';

/** A long-lived connection, as its adapter sees it. */
export interface PlacedConnection {
  /** Tells the application that it should leave. Returns whether the application listens. */
  leave(leaving: ConnectionLeaving): boolean;
  /** Closes it as its protocol does. */
  finish(): void;
  /** Destroys it. */
  cut(): void;
  /** Whether its client reconnects by itself: it is closed at its turn, unless the application listens. @defaultValue false */
  readonly movesItself?: boolean;
}

/** The last connections are closed this long before the endpoint's calls are cut, in ms; at most a 20th of the drain timeout. */
const MARGIN_MS = 1_000;
/** How long a connection may take to close after `finish`, in ms. */
const FINISH_PATIENCE_MS = 5_000;

/** What it takes. */
export interface PlacementsParts {
  readonly balancer: Pick<Balancer<never>, 'observer' | 'snapshot'>;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly options: ResolvedPlacingOptions;
}

/**
 * The long-lived connections of a client. Each is picked an endpoint only once, so balance depends on how they leave.
 *
 * - When an endpoint leaves, each of its connections gets a turn within `leaveSpreadMs`, at which it is told. With `closeLeaving` it
 *   is closed then; otherwise at the end of the drain timeout, also one by one. An endpoint that returns keeps the connections
 *   that are still open.
 * - With `rebalance`, connections above an endpoint's share are told or closed one by one.
 */
export class Placements {
  readonly #parts: PlacementsParts;
  readonly #groups = new Map<Subchannel<unknown>, Group>();
  readonly #rebalancing: Rebalancing | undefined;
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
        ask: (key) => this.#ask(key),
      });
    }
  }

  get options(): ResolvedPlacingOptions {
    return this.#parts.options;
  }

  get clock(): Clock {
    return this.#parts.clock;
  }

  get rng(): Rng {
    return this.#parts.rng;
  }

  get isClosing(): boolean {
    return this.#isClosing;
  }

  /** Connections held. */
  get size(): number {
    return this.#total;
  }

  /** A connection is open on the endpoint of `lease`. Returns what to call, once, when it is closed. */
  hold(lease: Lease<unknown>, connection: PlacedConnection): () => void {
    const { subchannel } = lease;
    let group = this.#groups.get(subchannel);
    if (group === undefined) {
      group = new Group(subchannel, this);
      this.#groups.set(subchannel, group);
    }
    const placement = new Placement(group, connection);
    group.add(placement);
    this.#total++;
    this.#rebalancing?.begin();
    return () => {
      if (!placement.ended()) return;
      this.#total--;
      const { group: left } = placement;
      if (left.size > 0) return;
      left.close();
      this.#groups.delete(subchannel);
    };
  }

  /** No new connection follows: from now on connections are told immediately, without a turn. */
  close(): void {
    this.#isClosing = true;
    this.#rebalancing?.stop();
  }

  /** Ends all. */
  cut(): void {
    for (const group of this.#groups.values()) group.cut();
  }

  /** The endpoints that can take connections, and how many each has. */
  #shares(): readonly Share[] | undefined {
    const staying = new Map<string, number>();
    for (const group of this.#groups.values()) {
      // Connections that leave one endpoint are about to arrive at others.
      if (group.isLeaving) return undefined;
      staying.set(group.key, group.staying.length);
    }
    const shares: Share[] = [];
    for (const { key, weight, state, inFlight, capacity } of this.#parts.balancer.snapshot().endpoints) {
      if (state !== 'ready' || weight <= 0) continue;
      // On probation it takes only one call at a time, so a moved connection would not arrive there.
      if (capacity !== -1 && inFlight >= capacity) continue;
      shares.push({ key, weight, connections: staying.get(key) ?? 0 });
    }
    return shares;
  }

  #ask(key: string): void {
    const { clock, rng, options } = this.#parts;
    for (const group of this.#groups.values()) {
      if (group.key !== key || group.isLost) continue;
      const { staying } = group;
      const { endpoint } = group.subchannel;
      const untilMs = clock.now() + options.drainTimeoutMs;
      staying[drawIndex(rng, staying.length)]?.turn({ endpoint, untilMs, reason: 'rebalance' });
    }
  }
}

/** How often to check whether an endpoint that left is back, in ms. */
const BACK_CHECK_MS = 1_000;

/** The connections on one endpoint. */
class Group {
  readonly subchannel: Subchannel<unknown>;
  readonly placements: Placements;
  readonly #members = new Set<Placement>();
  #notice!: AbortSignal;
  #backCheck: Timer | undefined;
  readonly #noticed = (): void => this.#leave([...this.#members]);

  constructor(subchannel: Subchannel<unknown>, placements: Placements) {
    this.subchannel = subchannel;
    this.placements = placements;
    this.#listen();
  }

  get key(): string {
    return this.subchannel.endpoint.key;
  }

  get size(): number {
    return this.#members.size;
  }

  /** Connections that were not asked to leave. */
  get staying(): readonly Placement[] {
    return [...this.#members].filter(({ isAsked }) => !isAsked);
  }

  /** Whether the endpoint is gone for good, even if another with the same key is in the set. */
  get isLost(): boolean {
    return this.subchannel.state === 'closed';
  }

  add(placement: Placement): void {
    this.#members.add(placement);
    // It may have begun to leave while the connection was opened, or be back.
    if (this.isLeaving) this.#leave([placement]);
  }

  remove(placement: Placement): boolean {
    return this.#members.delete(placement);
  }

  close(): void {
    this.#notice.removeEventListener('abort', this.#noticed);
    this.#backCheck?.cancel();
  }

  cut(): void {
    for (const placement of [...this.#members]) placement.cut();
  }

  get isLeaving(): boolean {
    if (this.subchannel.leaving !== this.#notice) {
      this.close();
      this.#listen();
      for (const placement of this.#members) placement.stays();
    }
    return this.#notice.aborted;
  }

  #listen(): void {
    this.#notice = this.subchannel.leaving;
    this.#notice.addEventListener('abort', this.#noticed, { once: true });
  }

  #leave(members: Placement[]): void {
    const { clock, rng, options, isClosing } = this.placements;
    const { endpoint, untilMs: cutMs } = this.#notice.reason as Leaving;
    const untilMs = cutMs - Math.min(MARGIN_MS, options.drainTimeoutMs / 20);
    const spreadMs = isClosing ? 0 : Math.max(0, Math.min(options.leaveSpreadMs, untilMs - clock.now()));
    // Each turn is drawn within its own part of the time. Purely random turns would sometimes come close together.
    for (let left = members.length; left > 0; left--) {
      const drawn = drawIndex(rng, left);
      const placement = members[drawn] as Placement;
      members[drawn] = members[left - 1] as Placement;
      const afterMs = (spreadMs * (left - 1 + rng.next())) / members.length;
      placement.schedule(afterMs, { endpoint, untilMs: untilMs - spreadMs + afterMs });
    }
    this.#watchReturn();
  }

  #watchReturn(): void {
    this.#backCheck?.cancel();
    if (this.isLost) return;
    this.#backCheck = this.placements.clock.timer(() => {
      if (this.isLeaving) this.#watchReturn();
    }, BACK_CHECK_MS);
  }
}

/** One connection on its endpoint. */
class Placement {
  readonly group: Group;
  readonly #connection: PlacedConnection;
  #timer: Timer | undefined;
  /** Whether it was told or closed. */
  isAsked = false;
  #isFinishing = false;

  constructor(group: Group, connection: PlacedConnection) {
    this.group = group;
    this.#connection = connection;
  }

  /** It is closed. False if that was known. */
  ended(): boolean {
    this.#timer?.cancel();
    return this.group.remove(this);
  }

  /** Its endpoint leaves; its turn is in `afterMs`. */
  schedule(afterMs: number, leaving: Leaving): void {
    if (this.#isFinishing) return;
    this.#timer?.cancel();
    this.#timer = this.group.placements.clock.timer(() => {
      if (!this.group.isLeaving) return;
      this.turn({ ...leaving, reason: this.group.placements.isClosing ? 'close' : 'endpoint' });
    }, afterMs);
  }

  /** Its endpoint is back. */
  stays(): void {
    if (this.#isFinishing) return;
    this.#timer?.cancel();
    this.isAsked = false;
  }

  turn(leaving: ConnectionLeaving): void {
    const { clock, options } = this.group.placements;
    this.isAsked = true;
    this.#timer?.cancel();
    if (options.closeLeaving) {
      this.#finish();
      return;
    }
    const leftMs = leaving.untilMs - clock.now();
    if (leftMs !== Number.POSITIVE_INFINITY) {
      this.#timer = clock.timer(() => {
        if (leaving.reason === 'rebalance' || this.group.isLeaving) this.#finish();
      }, leftMs);
    }
    // With `rebalance` on, the application is asked if it listens; otherwise the connection is closed.
    const isClosedUnheard = leaving.reason === 'rebalance' || this.#connection.movesItself === true;
    if (!this.#tell(leaving) && isClosedUnheard) this.#finish();
  }

  cut(): void {
    this.#connection.cut();
  }

  #tell(leaving: ConnectionLeaving): boolean {
    try {
      return this.#connection.leave(leaving);
    } catch (error) {
      this.group.placements.warnings.warn('onLeaving threw', error);
      return true;
    }
  }

  #finish(): void {
    if (this.#isFinishing) return;
    this.#isFinishing = true;
    this.#timer?.cancel();
    this.#timer = this.group.placements.clock.timer(() => this.#connection.cut(), FINISH_PATIENCE_MS);
    try {
      this.#connection.finish();
    } catch {
      this.#connection.cut();
    }
  }
}
