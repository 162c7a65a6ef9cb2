import type { Outcome } from '../endpoint/outcome.js';

/** Measures the calls of one balancer. Its methods run for every call and allocate nothing. */
export interface CallMeter {
  /** An attempt ended, `durationMs` after it got its endpoint. */
  attemptEnded(outcome: Outcome, durationMs: number): void;
  /** A call no longer waits for an endpoint or for the limit; `served` says whether it got an endpoint. */
  waited(durationMs: number, served: boolean): void;
}

/** The part of a balancer that code for all balancers of a thread needs, such as metrics and the admin page. */
export interface LiveBalancer<Snapshot> {
  /** The name of the balancer's resolver, which is the target unless a resolver has another name. */
  readonly name: string;
  /** Measures the balancer's calls; undefined while nobody reads metrics. */
  meter: CallMeter | undefined;
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
