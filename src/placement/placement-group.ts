import type { Warnings } from '../observe/warnings.js';
import type { Leaving } from '../pool/drain.js';
import type { Subchannel } from '../pool/subchannel.js';
import type { Clock, Timer } from '../runtime/clock.js';
import { drawIndex, type Rng } from '../runtime/rng.js';
import type { ConnectionLeaving, ResolvedPlacingOptions } from './placing-options.js';

/** What a long-lived connection can be told to do by the code that balances connections. */
export interface PlacedConnection {
  /** Notifies the application that the connection should leave. Returns whether the application listens. */
  leave(leaving: ConnectionLeaving): boolean;
  /** Closes the connection with its protocol's own goodbye. */
  finish(): void;
  /** Destroys the connection at once. */
  cut(): void;
  /**
   * Whether the connection's client reconnects by itself. Such a connection is closed when it should leave, unless the application listens.
   * @defaultValue false
   */
  readonly movesItself?: boolean;
}

/** An endpoint's last connections are closed this many ms before its calls are cut, but at most a 20th of the drain timeout. */
const MARGIN_MS = 1_000;
/** How long a connection may take to close after `finish`, in ms. */
const FINISH_PATIENCE_MS = 5_000;

/** What a `PlacementGroup` needs from the client it belongs to. */
export interface PlacementOwner {
  readonly clock: Clock;
  readonly rng: Rng;
  readonly options: ResolvedPlacingOptions;
  readonly warnings: Warnings;
  /** Whether the client is closing. Then the application is notified about all connections at once. */
  readonly isClosing: boolean;
}

/** How often a group checks whether an endpoint that left is back in the set, in ms. */
const BACK_CHECK_MS = 1_000;

/** The long-lived connections to one endpoint. When the endpoint leaves, they leave at moments that are spread over time. */
export class PlacementGroup {
  readonly subchannel: Subchannel<unknown>;
  readonly owner: PlacementOwner;
  readonly #members = new Set<Placement>();
  #notice!: AbortSignal;
  #backCheck: Timer | undefined;
  readonly #noticed = (): void => this.#leave([...this.#members]);

  constructor(subchannel: Subchannel<unknown>, owner: PlacementOwner) {
    this.subchannel = subchannel;
    this.owner = owner;
    this.#listen();
  }

  get key(): string {
    return this.subchannel.endpoint.key;
  }

  get size(): number {
    return this.#members.size;
  }

  /** The endpoint's connections that are not leaving. */
  get staying(): readonly Placement[] {
    return [...this.#members].filter((placement) => !placement.isLeaveRequested);
  }

  /** Whether the endpoint is gone for good, even if the set has another endpoint with the same key. */
  get isLost(): boolean {
    return this.subchannel.state === 'closed';
  }

  add(placement: Placement): void {
    this.#members.add(placement);
    // While this connection was opened, its endpoint may have begun to leave, or may have returned.
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

  /** The client is closing. If the endpoint is leaving already, its connections do not wait for their turn any longer. */
  closing(): void {
    if (this.isLeaving) this.#leave([...this.staying]);
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
    const { clock, rng, options, isClosing } = this.owner;
    const { endpoint, untilMs: cutMs } = this.#notice.reason as Leaving;
    const untilMs = cutMs - Math.min(MARGIN_MS, options.drainTimeoutMs / 20);
    const spreadMs = isClosing ? 0 : Math.max(0, Math.min(options.leaveSpreadMs, untilMs - clock.now()));
    // The time is divided into equal parts, and each connection leaves at a random moment of its own part. Entirely random moments would
    // sometimes come close together.
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
    this.#backCheck = this.owner.clock.timer(() => {
      if (this.isLeaving) this.#watchReturn();
    }, BACK_CHECK_MS);
  }
}

/** One long-lived connection on its endpoint. */
export class Placement {
  readonly group: PlacementGroup;
  readonly #connection: PlacedConnection;
  #timer: Timer | undefined;
  /** `asked` to leave, or `finishing`: closed for that purpose. */
  #state: 'staying' | 'asked' | 'finishing' = 'staying';

  constructor(group: PlacementGroup, connection: PlacedConnection) {
    this.group = group;
    this.#connection = connection;
  }

  /** Whether the connection was asked to leave, or closed for that purpose. */
  get isLeaveRequested(): boolean {
    return this.#state !== 'staying';
  }

  /** Records that the connection is closed. Returns false if that was recorded before. */
  ended(): boolean {
    this.#timer?.cancel();
    return this.group.remove(this);
  }

  /** The connection's endpoint is leaving, and the connection is asked to leave after `afterMs`. */
  schedule(afterMs: number, leaving: Leaving): void {
    if (this.#state === 'finishing') return;
    this.#timer?.cancel();
    this.#timer = this.group.owner.clock.timer(() => {
      if (!this.group.isLeaving) return;
      this.askToLeave({ ...leaving, reason: this.group.owner.isClosing ? 'close' : 'endpoint' });
    }, afterMs);
  }

  /** The connection's endpoint is back in the set. */
  stays(): void {
    if (this.#state === 'finishing') return;
    this.#timer?.cancel();
    this.#state = 'staying';
  }

  askToLeave(leaving: ConnectionLeaving): void {
    const { clock, options } = this.group.owner;
    if (this.#state === 'staying') this.#state = 'asked';
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
    // When connections are moved to rebalance them, the application is notified if it listens; if it does not, the connection is closed.
    const closesSilently = leaving.reason === 'rebalance' || this.#connection.movesItself === true;
    if (!this.#tell(leaving) && closesSilently) this.#finish();
  }

  cut(): void {
    this.#connection.cut();
  }

  #tell(leaving: ConnectionLeaving): boolean {
    try {
      return this.#connection.leave(leaving);
    } catch (error) {
      this.group.owner.warnings.warn('onLeaving threw', error);
      return true;
    }
  }

  #finish(): void {
    if (this.#state === 'finishing') return;
    this.#state = 'finishing';
    this.#timer?.cancel();
    this.#timer = this.group.owner.clock.timer(() => this.#connection.cut(), FINISH_PATIENCE_MS);
    try {
      this.#connection.finish();
    } catch {
      this.#connection.cut();
    }
  }
}
