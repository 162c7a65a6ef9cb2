import type { Outcome } from '../endpoint/outcome.js';

/** Measures the calls of one balancer. Called on the path of every call: it allocates nothing. */
export interface CallMeter {
  /** An attempt ended, `durationMs` after it was given its endpoint. */
  attemptEnded(outcome: Outcome, durationMs: number): void;
  /** A call waited for an endpoint, or for its turn; `served` if it got one. */
  waited(durationMs: number, served: boolean): void;
}

/** A balancer as those see it who look at all of a thread. */
export interface LiveBalancer<Snapshot> {
  /** The name of its resolver: the target, as a rule. */
  readonly name: string;
  /** Undefined while nobody measures. */
  meter: CallMeter | undefined;
  snapshot(): Snapshot;
}

/** Whoever measures balancers: told of those that exist, and of each that is created or closed later. */
export interface BalancerWatcher<Snapshot> {
  created(balancer: LiveBalancer<Snapshot>): void;
  /** It is about to close. */
  closed(balancer: LiveBalancer<Snapshot>): void;
}

/** The balancers of a thread that are not closed. It keeps none alive: one that was dropped without being closed is forgotten. */
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

  /** Returns what ends it. */
  watch(watcher: BalancerWatcher<Snapshot>): () => void {
    this.#watchers.add(watcher);
    for (const balancer of this) watcher.created(balancer);
    return () => {
      this.#watchers.delete(watcher);
    };
  }
}
