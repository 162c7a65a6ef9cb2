import type { Endpoint } from '../endpoint/endpoint.js';
import type { EndpointEntry, EndpointSet } from '../endpoint/endpoint-set.js';
import { inFlight } from '../load/in-flight.js';
import type { Load, LoadFactory } from '../load/load.js';
import type { Observer } from '../observe/observer.js';
import type { Warnings } from '../observe/warnings.js';
import type { Tracker } from '../stage/stage.js';
import { ConnectGate } from './connect-gate.js';
import { inDrawnOrder } from './dial-order.js';
import type { PoolContext } from './pool-options.js';
import { RetiringConnections } from './retiring.js';
import { Subchannel } from './subchannel.js';
import type { SubchannelOwner } from './subchannel-owner.js';
import type { Transport } from './transport.js';

/** For how long connections to two endpoints, or to all, must have failed for the set to be doubted, in ms; and those to a single one. */
const FAILING_MS = 5_000;
const ONE_FAILING_MS = 30_000;

/** What a pool needs from its balancer. */
export interface PoolParts<C> extends PoolContext {
  readonly transport: Transport<C>;
  readonly observer: Observer;
  readonly warnings: Warnings;
  readonly load: LoadFactory;
  /** Creates the trackers that all stages want for a new endpoint. */
  readonly track: (endpoint: Endpoint) => readonly Tracker[];
  /** Called when a subchannel became ready, or is ready no longer. */
  readonly changed: () => void;
  /** Called when a subchannel can carry more calls than before. */
  readonly capacityGained: () => void;
  /** Called when connections fail, so that the resolver looks again. */
  readonly troubled: () => void;
}

/** Connections that fail in a way that puts the set in doubt. */
export interface Failing {
  /** Since when, on the clock in ms. */
  readonly sinceMs: number;
  /** Whether they fail to every member. */
  readonly isEach: boolean;
}

/** A subchannel whose endpoint is in the set, with the weight that the stages gave it. */
export interface Member<C> {
  readonly subchannel: Subchannel<C>;
  /** The endpoint's share of picks relative to others; 0 = standby. */
  readonly weight: number;
  readonly suspect: boolean;
}

/**
 * Keeps one subchannel for each endpoint of the set. The subchannels of endpoints that leave drain; if an endpoint returns, its subchannel
 * is revived.
 */
export class Pool<C> {
  readonly #parts: PoolParts<C>;
  readonly #owner: SubchannelOwner<C>;
  /** Every subchannel that is not closed, including draining ones, by the key of its endpoint. */
  readonly #subchannels = new Map<string, Subchannel<C>>();
  readonly #retiring: RetiringConnections<C>;
  #members: readonly Member<C>[] = [];
  /** The loads of all subchannels, for loads that compare them. */
  readonly #loads = { loads: new Set<Load>() };
  /** How many calls were started on subchannels that are closed now. */
  #startedBefore = 0;
  #closing = false;
  #allClosed: (() => void) | undefined;

  constructor(parts: PoolParts<C>) {
    const { transport, clock, rng, observer, warnings, options } = parts;
    this.#parts = parts;
    this.#retiring = new RetiringConnections(parts);
    this.#owner = {
      transport,
      clock,
      rng,
      observer,
      warnings,
      options,
      gate: new ConnectGate(options.maxConnecting, clock),
      readinessChanged: parts.changed,
      capacityGained: parts.capacityGained,
      troubled: parts.troubled,
      retire: (connection, how, isNeeded) => this.#retiring.add(connection, how, isNeeded),
      calledOff: (dial) => this.#retiring.calledOff(dial),
      subchannelClosed: (subchannel) => this.#forget(subchannel.endpoint.key, subchannel),
    };
  }

  /** The subchannels of the endpoints in the current set, in the set's order. */
  get members(): readonly Member<C>[] {
    return this.#members;
  }

  /** Whether any endpoint of the set with a weight above 0 is connected. */
  get hasReady(): boolean {
    return this.#members.some(({ subchannel, weight }) => weight > 0 && subchannel.state === 'ready');
  }

  /** Whether any endpoint of the set with a weight above 0 is connected whose subchannel is not in `avoid`. */
  hasReadyBut(avoid: ReadonlySet<Subchannel<C>>): boolean {
    return this.#members.some(
      ({ subchannel, weight }) => weight > 0 && subchannel.state === 'ready' && !avoid.has(subchannel),
    );
  }

  /** The time on the clock, in ms, since which every member has refused a connection; -Infinity if there is none, or one has not. */
  get refusedMs(): number {
    let sinceMs = this.#members.length === 0 ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
    for (const { subchannel } of this.#members) {
      sinceMs = Math.min(sinceMs, subchannel.refusedMs);
      if (sinceMs === Number.NEGATIVE_INFINITY) break;
    }
    return sinceMs;
  }

  /**
   * How connections fail, if it puts the set itself in doubt: to every member or to two for `FAILING_MS`, or to one for
   * `ONE_FAILING_MS`. Of several such times the latest counts; undefined if there is none.
   */
  get failing(): Failing | undefined {
    const nowMs = this.#parts.clock.now();
    let [latest, second, one] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY];
    let count = 0;
    for (const { subchannel } of this.#members) {
      const sinceMs = subchannel.failingSinceMs;
      if (sinceMs === undefined || nowMs - sinceMs < FAILING_MS) continue;
      count++;
      if (nowMs - sinceMs >= ONE_FAILING_MS) one = Math.max(one, sinceMs);
      second = Math.max(second, Math.min(latest, sinceMs));
      latest = Math.max(latest, sinceMs);
    }
    const isEach = count > 0 && count === this.#members.length;
    const sinceMs = isEach ? latest : Math.max(second, one);
    return sinceMs === Number.NEGATIVE_INFINITY ? undefined : { sinceMs, isEach };
  }

  /** A caller waits since `sinceMs`: endpoints that could not be connected to before are dialed now. */
  dialNow(sinceMs: number): void {
    if (this.hasReady) return;
    for (const { subchannel } of this.#members) subchannel.dialNow(sinceMs);
  }

  /** All subchannels that are not closed: those of the set, and draining ones. */
  get subchannels(): Iterable<Subchannel<C>> {
    return this.#subchannels.values();
  }

  /** How many calls were started on the pool's endpoints since the pool was created. */
  get started(): number {
    let started = this.#startedBefore;
    for (const subchannel of this.#subchannels.values()) started += subchannel.started;
    return started;
  }

  get(key: string): Subchannel<C> | undefined {
    return this.#subchannels.get(key);
  }

  /** Checks whether an endpoint is alive. Rejects if it is not, if there is no connection to it, or if the transport has no `ping`. */
  async ping(key: string, signal: AbortSignal): Promise<void> {
    const subchannel = this.#subchannels.get(key);
    if (subchannel === undefined) throw new Error(`no connection to ${key}`);
    await subchannel.ping(signal);
  }

  /**
   * Makes the pool follow `set`. `known` is everything that the resolver listed, by key: it shows whether the pod of an endpoint that left
   * the set is terminating and will not return.
   *
   * @returns If nothing was connected before, the new endpoints in the order in which they are dialed; otherwise none.
   */
  reconcile(set: EndpointSet, known: ReadonlyMap<string, Endpoint>): readonly Member<C>[] {
    const staying = new Set<string>();
    const members: Member<C>[] = [];
    const newcomers: Member<C>[] = [];
    for (const entry of set.entries) {
      // An observer may have closed the balancer during an earlier step of this loop.
      if (this.#closing) return [];
      staying.add(entry.endpoint.key);
      const isNew = !this.#subchannels.has(entry.endpoint.key);
      const member = this.#member(entry);
      // While the endpoint's subchannel was created, a stage or its new load may have closed the balancer.
      if (this.#closing) {
        member.subchannel.drain(true);
        return [];
      }
      member.subchannel.setProbation(entry.probation);
      members.push(member);
      if (isNew) newcomers.push(member);
    }
    const isStart = !members.some(({ subchannel }) => subchannel.state === 'ready');
    this.#members = members;
    const inOrder = inDrawnOrder(newcomers, this.#parts.rng);
    for (const { subchannel } of inOrder) {
      if (this.#closing) break;
      subchannel.open();
    }
    for (const [key, subchannel] of this.#subchannels) {
      if (staying.has(key)) continue;
      subchannel.drain(known.get(key)?.conditions.terminating ?? false);
      // Calls that wait here for a connection go to other endpoints. When the balancer closes, all endpoints drain without this step, since
      // their calls have nowhere else to go.
      subchannel.handBack();
    }
    return isStart ? inOrder : [];
  }

  /**
   * Drains all subchannels. Resolves when every subchannel and connection is closed. Calls that still run when `signal` aborts are cut. May
   * be called only once.
   */
  async close(signal: AbortSignal): Promise<void> {
    this.#closing = true;
    this.#members = [];
    const allClosed = new Promise<void>((resolve) => {
      this.#allClosed = resolve;
    });
    for (const subchannel of this.#subchannels.values()) subchannel.drain(true);
    const cut = (): void => {
      for (const subchannel of this.#subchannels.values()) subchannel.destroy();
      this.#retiring.cutAll();
    };
    signal.addEventListener('abort', cut, { once: true });
    if (signal.aborted) cut();
    if (this.#subchannels.size > 0) await allClosed;
    await this.#retiring.allClosed();
    signal.removeEventListener('abort', cut);
  }

  #member({ endpoint, weight, suspect }: EndpointEntry): Member<C> {
    const present = this.#subchannels.get(endpoint.key);
    if (present !== undefined) {
      present.update(endpoint);
      present.revive();
      return { subchannel: present, weight, suspect };
    }
    const subchannel = new Subchannel(endpoint, this.#owner, this.#newLoad(), this.#parts.track(endpoint));
    this.#subchannels.set(endpoint.key, subchannel);
    return { subchannel, weight, suspect };
  }

  #newLoad(): Load {
    const { load, warnings } = this.#parts;
    const make = (): Load | undefined => load(this.#loads);
    const made = warnings.guarded('the load factory threw; calls in flight are counted instead', make, undefined);
    if (made === undefined) return inFlight()();
    this.#loads.loads.add(made);
    return made;
  }

  #forget(key: string, subchannel: unknown): void {
    const known = this.#subchannels.get(key);
    if (known !== undefined && known === subchannel) {
      this.#startedBefore += known.started;
      this.#subchannels.delete(key);
      this.#loads.loads.delete(known.load);
    }
    if (this.#subchannels.size === 0) this.#allClosed?.();
  }
}
