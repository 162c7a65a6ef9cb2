import type { Outcome } from '../endpoint/outcome.js';

/** Measures the calls of one balancer. Its methods run for every call and allocate nothing. */
export interface CallMeter {
  /** An attempt ended, `durationMs` after it got its endpoint. */
  attemptEnded(outcome: Outcome, durationMs: number): void;
  /** A call no longer waits for an endpoint or for the limit; `served` says whether it got an endpoint. */
  waited(durationMs: number, served: boolean): void;
}

/**
 * The protocol of a transport, for metrics under the names of naming conventions (`metricProducer({ conventions })`). Each client has one
 * constant object.
 */
export interface Protocol {
  readonly conventions: 'http' | 'grpc' | 'db';
  /** The attributes that all calls of the client share, by name, such as `server.address`. */
  readonly attributes: Readonly<Record<string, string | number>>;
  /** How attempts to connect ended, for gRPC's metrics; absent for other protocols. */
  readonly connections?: ConnectionAttempts;
}

/** How a client's attempts to connect ended. All numbers only grow. */
export interface ConnectionAttempts {
  readonly succeeded: number;
  readonly failed: number;
  readonly disconnections: number;
}

/**
 * Describes an attempt in terms of its protocol, for metrics. Adapters create one per attempt, but only while calls are measured by
 * protocol.
 */
export interface CallNote {
  /** What the call does: its HTTP method, its gRPC method, or the database operation. */
  readonly operation: string;
  /** The status of the response, in terms of the protocol; undefined until there is a response. */
  status: number | string | undefined;
}

/** Measures calls of balancers with one protocol, by operation. Its methods run for every call and allocate nothing. */
export interface ProtocolMeter {
  /** An attempt starts. Called only for protocols whose metrics count started attempts. */
  attemptStarted(operation: string): void;
  attemptEnded(note: CallNote, outcome: Outcome, durationMs: number): void;
  /** A call has ended after all its attempts. Called only for protocols whose calls are retried outside the balancer. */
  callEnded(operation: string, status: number, durationMs: number): void;
}

/** The part of a balancer that code for all balancers of a thread needs, such as metrics and the admin page. */
export interface LiveBalancer<Snapshot> {
  /** The name of the balancer's resolver, which is the target unless a resolver has another name. */
  readonly name: string;
  /** Measures the balancer's calls; undefined while nobody reads metrics. */
  meter: CallMeter | undefined;
  /** The protocol of the balancer's transport, if known. */
  readonly protocol: Protocol | undefined;
  /** Measures the balancer's calls by operation; undefined unless metrics by protocol are read. */
  protocolMeter: ProtocolMeter | undefined;
  snapshot(): Snapshot;
}

/** Notified of balancers: of those that exist, and of each one created later. */
export interface BalancerWatcher<Snapshot> {
  created(balancer: LiveBalancer<Snapshot>): void;
  /** The balancer is about to close. */
  closed(balancer: LiveBalancer<Snapshot>): void;
}

/**
 * The balancers of a thread that are not closed. They are held weakly, so a balancer that was dropped without being closed is forgotten.
 */
export class LiveBalancers<Snapshot> {
  readonly #all = new Set<WeakRef<LiveBalancer<Snapshot>>>();
  readonly #refs = new WeakMap<LiveBalancer<Snapshot>, WeakRef<LiveBalancer<Snapshot>>>();
  readonly #dropped = new FinalizationRegistry<WeakRef<LiveBalancer<Snapshot>>>((ref) => this.#all.delete(ref));
  readonly #watchers = new Set<BalancerWatcher<Snapshot>>();

  *[Symbol.iterator](): Generator<LiveBalancer<Snapshot>> {
    for (const ref of this.#all) {
      const balancer = ref.deref();
      if (balancer !== undefined) yield balancer;
    }
  }

  add(balancer: LiveBalancer<Snapshot>): void {
    const ref = new WeakRef(balancer);
    this.#all.add(ref);
    this.#refs.set(balancer, ref);
    this.#dropped.register(balancer, ref, ref);
    for (const watcher of this.#watchers) watcher.created(balancer);
  }

  remove(balancer: LiveBalancer<Snapshot>): void {
    const ref = this.#refs.get(balancer);
    if (ref === undefined || !this.#all.delete(ref)) return;
    this.#dropped.unregister(ref);
    for (const watcher of this.#watchers) watcher.closed(balancer);
  }

  /** Starts to notify a watcher of balancers. Returns a function that ends this. */
  watch(watcher: BalancerWatcher<Snapshot>): () => void {
    this.#watchers.add(watcher);
    for (const balancer of this) watcher.created(balancer);
    return () => {
      this.#watchers.delete(watcher);
    };
  }
}
