import type { Outcome } from '../endpoint/outcome.js';

/** Measures the calls of one balancer. Called on the path of every call: it allocates nothing. */
export interface CallMeter {
  /** An attempt ended, `durationMs` after it was given its endpoint. */
  attemptEnded(outcome: Outcome, durationMs: number): void;
  /** A call waited for an endpoint, or for its turn; `served` says whether it got one. */
  waited(durationMs: number, served: boolean): void;
}

/**
 * The protocol of a transport, for metrics with the names of conventions (`metricProducer({ conventions })`): which conventions, and the
 * attributes that all its calls share. One constant object for each client.
 */
export interface Protocol {
  readonly conventions: 'http' | 'grpc' | 'db';
  /** The attributes that all calls of the client share, by name, such as `server.address`. */
  readonly attributes: Readonly<Record<string, string | number>>;
  /** How attempts to connect ended; only for gRPC. */
  readonly connections?: ConnectionAttempts;
}

/** How a client's attempts to connect ended. All numbers only grow. */
export interface ConnectionAttempts {
  readonly succeeded: number;
  readonly failed: number;
  readonly disconnections: number;
}

/** Describes a call in terms of its protocol. Adapters make one for each attempt, only while calls are measured. */
export interface CallNote {
  /** What the call does: the HTTP method, the gRPC method or the database's operation. */
  readonly operation: string;
  /** The status of the call's response in terms of the protocol; undefined until there is one. */
  status: number | string | undefined;
}

/** Measures the calls of balancers with one protocol, by operation. Called on the path of every call: it allocates nothing. */
export interface ProtocolMeter {
  /** An attempt starts. Only for protocols where started attempts are counted. */
  attemptStarted(operation: string): void;
  attemptEnded(note: CallNote, outcome: Outcome, durationMs: number): void;
  /** A call has ended over all its attempts. Only for protocols whose calls are retried outside the balancer. */
  callEnded(operation: string, status: number, durationMs: number): void;
}

/** A balancer as seen by code that reads all balancers of a thread. */
export interface LiveBalancer<Snapshot> {
  /** The name of the balancer's resolver: the target, as a rule. */
  readonly name: string;
  /** Measures the balancer's calls; undefined while metrics are off. */
  meter: CallMeter | undefined;
  /** The protocol of the balancer's transport, if known. */
  readonly protocol: Protocol | undefined;
  /** Measures the balancer's calls by operation; undefined unless metrics with the names of the protocol are on. */
  protocolMeter: ProtocolMeter | undefined;
  /** Records the balancer's calls; undefined without a recorder. */
  readonly recorder?: { dump(options?: { readonly pseudonyms?: boolean }): Uint8Array<ArrayBuffer> } | undefined;
  snapshot(): Snapshot;
}

/** Measures balancers: those that exist, and every one created later. */
export interface BalancerWatcher<Snapshot> {
  created(balancer: LiveBalancer<Snapshot>): void;
  /** The balancer is about to close. */
  closed(balancer: LiveBalancer<Snapshot>): void;
}

/** The balancers of a thread that are not closed. The balancers are held weakly: one that was dropped without being closed is forgotten. */
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

  /** Starts to notify the watcher of balancers. Returns a function that ends this. */
  watch(watcher: BalancerWatcher<Snapshot>): () => void {
    this.#watchers.add(watcher);
    for (const balancer of this) watcher.created(balancer);
    return () => {
      this.#watchers.delete(watcher);
    };
  }
}
