import type { BalancerSnapshot } from '../balancer/snapshot.js';

/** What `/balancers` of the admin page shows: the balancers of the process, and the clients that are not balanced. */
export interface PageData {
  /** The open balancers of this process. */
  readonly balancers: readonly AdminBalancer[];
  /** The clients that `evenkeel/register` found and does not balance; undefined in a process that does not use it. */
  readonly unbalanced?: readonly UnbalancedClient[];
}

/** A balancer as the admin page shows it. */
export interface AdminBalancer extends BalancerSnapshot {
  /** A number that identifies this balancer while the process lives, because two balancers may have the same target. */
  readonly id: number;
}

/** A client that `evenkeel/register` found and does not balance. */
export interface UnbalancedClient {
  /** What kind of client it is, in words for the page. */
  readonly what: string;
  /** How many requests clients of this kind have sent so far; where requests cannot be seen, how many such clients there are. */
  readonly count: number;
  /** What to write in the application so that these clients are balanced. */
  readonly remedy: string;
}
