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

/** The balancers of a thread that are not closed. */
export class LiveBalancers<Snapshot> {
  readonly #all = new Set<LiveBalancer<Snapshot>>();
  readonly #watchers = new Set<BalancerWatcher<Snapshot>>();

  [Symbol.iterator](): Iterator<LiveBalancer<Snapshot>> {
    return this.#all.values();
  }

  add(balancer: LiveBalancer<Snapshot>): void {
    this.#all.add(balancer);
    for (const watcher of this.#watchers) watcher.created(balancer);
  }

  remove(balancer: LiveBalancer<Snapshot>): void {
    if (!this.#all.delete(balancer)) return;
    for (const watcher of this.#watchers) watcher.closed(balancer);
  }

  /** Returns what ends it. */
  watch(watcher: BalancerWatcher<Snapshot>): () => void {
    this.#watchers.add(watcher);
    for (const balancer of this.#all) watcher.created(balancer);
    return () => {
      this.#watchers.delete(watcher);
    };
  }
}
