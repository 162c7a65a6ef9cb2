import type { Endpoint } from '../endpoint/endpoint.js';
import type { EndpointEntry, EndpointSet } from '../endpoint/endpoint-set.js';
import type { LoadFactory } from '../load/load.js';
import type { Observer } from '../observe/observer.js';
import type { Clock } from '../runtime/clock.js';
import type { Rng } from '../runtime/rng.js';
import type { Stage, Tracker } from '../stage/stage.js';
import { cut } from './connect.js';
import { ConnectGate } from './connect-gate.js';
import type { ResolvedPoolOptions } from './pool-options.js';
import { Subchannel, type SubchannelOwner } from './subchannel.js';
import type { Connection, Transport } from './transport.js';

/** What a pool is made of. */
export interface PoolParts<C> {
  readonly transport: Transport<C>;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly observer: Observer;
  readonly options: ResolvedPoolOptions;
  readonly load: LoadFactory;
  readonly stages: readonly Stage[];
  /** A subchannel became ready or stopped being so. */
  readonly changed: () => void;
  /** Connections fail: a hint for the resolver. */
  readonly troubled: () => void;
}

/** A subchannel that is in the set, with the weight the stages gave it. */
export interface Member<C> {
  readonly subchannel: Subchannel<C>;
  /** 0 = standby. */
  readonly weight: number;
  readonly doubted: boolean;
}

/** Keeps one subchannel per endpoint of the set; what leaves drains, what returns is revived. */
export class Pool<C> {
  readonly #parts: PoolParts<C>;
  readonly #owner: SubchannelOwner<C>;
  /** Every subchannel not yet closed, the draining ones included. */
  readonly #subchannels = new Map<string, Subchannel<C>>();
  /** Connections that get no new call and are not closed yet; aborting cuts what still runs on them. */
  readonly #retiring = new Map<Promise<void>, AbortController>();
  #members: readonly Member<C>[] = [];
  #allClosed: (() => void) | undefined;

  constructor(parts: PoolParts<C>) {
    this.#parts = parts;
    this.#owner = {
      transport: parts.transport,
      clock: parts.clock,
      rng: parts.rng,
      observer: parts.observer,
      options: parts.options,
      gate: new ConnectGate(parts.options.maxConnecting),
      readinessChanged: parts.changed,
      troubled: parts.troubled,
      retire: (connection, how) => this.#retire(connection, how),
      subchannelClosed: (subchannel) => this.#forget(subchannel),
    };
  }

  /** The members of the present set, in its order. */
  get members(): readonly Member<C>[] {
    return this.#members;
  }

  /** Members and those that are draining. */
  get subchannels(): Iterable<Subchannel<C>> {
    return this.#subchannels.values();
  }

  get(key: string): Subchannel<C> | undefined {
    return this.#subchannels.get(key);
  }

  /**
   * Makes the pool follow `set`. `known` is all the resolver listed, by key: it tells of an endpoint that left the set
   * whether its pod is terminating, and so will not come back.
   */
  reconcile(set: EndpointSet, known: ReadonlyMap<string, Endpoint>): void {
    const staying = new Set<string>();
    this.#members = set.entries.map((entry) => {
      staying.add(entry.endpoint.key);
      const member = this.#member(entry);
      member.subchannel.setTrial(entry.trial);
      return member;
    });
    for (const [key, subchannel] of this.#subchannels) {
      if (staying.has(key)) continue;
      subchannel.drain(known.get(key)?.conditions.terminating ?? false);
    }
  }

  /** Drains all; resolves when every subchannel and connection is closed. What runs when `signal` aborts is cut. */
  async close(signal: AbortSignal): Promise<void> {
    this.#members = [];
    const closed = new Promise<void>((resolve) => {
      this.#allClosed = resolve;
    });
    for (const subchannel of [...this.#subchannels.values()]) subchannel.drain(true);
    const destroy = (): void => {
      for (const subchannel of [...this.#subchannels.values()]) subchannel.destroy();
      for (const limit of this.#retiring.values()) limit.abort();
    };
    signal.addEventListener('abort', destroy, { once: true });
    if (signal.aborted) destroy();
    if (this.#subchannels.size > 0) await closed;
    while (this.#retiring.size > 0) await Promise.all(this.#retiring.keys());
    signal.removeEventListener('abort', destroy);
  }

  #member({ endpoint, weight, doubted }: EndpointEntry): Member<C> {
    const present = this.#subchannels.get(endpoint.key);
    if (present !== undefined) {
      present.endpoint = endpoint;
      present.revive();
      return { subchannel: present, weight, doubted };
    }
    const trackers: Tracker[] = [];
    for (const stage of this.#parts.stages) {
      const tracker = stage.track?.(endpoint);
      if (tracker !== undefined) trackers.push(tracker);
    }
    const subchannel = new Subchannel(endpoint, this.#owner, this.#parts.load(), trackers);
    this.#subchannels.set(endpoint.key, subchannel);
    subchannel.open();
    return { subchannel, weight, doubted };
  }

  #retire(connection: Connection<C>, how: 'finish' | 'cut'): void {
    if (how === 'cut') {
      this.#track(connection.close(cut), new AbortController());
      return;
    }
    const { clock, options } = this.#parts;
    const limit = new AbortController();
    const timer = clock.timer(() => limit.abort(), options.drainTimeoutMs);
    this.#track(
      connection.close(limit.signal).finally(() => timer.cancel()),
      limit,
    );
  }

  #track(closing: Promise<void>, limit: AbortController): void {
    this.#retiring.set(closing, limit);
    const done = (): void => {
      this.#retiring.delete(closing);
    };
    closing.then(done, done);
  }

  #forget(subchannel: Subchannel<C>): void {
    const { key } = subchannel.endpoint;
    if (this.#subchannels.get(key) === subchannel) this.#subchannels.delete(key);
    if (this.#subchannels.size === 0) this.#allClosed?.();
  }
}
