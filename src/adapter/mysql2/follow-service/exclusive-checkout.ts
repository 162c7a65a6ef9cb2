import type { Clock, Timer } from '../../../index.js';
import { type CheckedOut, checkOut, type UserCluster } from './user-cluster.js';

/** How often progress is checked, in ms; callers may have to wait as long for a connection … */
const LOOK_MS = 100;
/**
 * … and how many checks in a row may find none. One would not be enough: after our own process stalled, the timer fires before the
 * servers' answers are read.
 */
const LOOKS = 2;
/** A larger pool, or one without a limit, cannot be checked out as a whole. */
const MAX_CONNECTIONS = 100;

/** The node whose connections are checked out. */
export interface ExclusiveCheckoutOf {
  readonly cluster: UserCluster;
  readonly clock: Clock;
  readonly id: string;
  readonly connectionLimit: number;
}

/** What becomes of connections when the checkout is over. */
export type Disposal = 'destroy' | 'release';

/**
 * Checks out every connection a node may have. mysql2 serves callers in order, so those in use arrive here as soon as their queries
 * end, and nobody gets one after us: once we have them all, nobody is using the node.
 *
 * @param over Called once, unless it is stopped before: whether all were checked out. They are destroyed right after.
 * @returns Stops it silently; what was checked out, or still arrives, is destroyed or released.
 */
export function exclusiveCheckout(of: ExclusiveCheckoutOf, over: (all: boolean) => void): (disposal: Disposal) => void {
  const { cluster, clock, id, connectionLimit } = of;
  const isFeasible = connectionLimit > 0 && connectionLimit <= MAX_CONNECTIONS;
  const held: CheckedOut[] = [];
  let disposal: Disposal | undefined;
  let timer: Timer;
  let progress = 0;
  let looks = 0;

  const stop = (how: Disposal): void => {
    if (disposal !== undefined) return;
    disposal = how;
    timer.cancel();
    for (const connection of held.splice(0)) connection[how]();
  };
  const end = (all: boolean): void => {
    if (disposal !== undefined) return;
    over(all);
    stop('destroy');
  };
  /** A caller that keeps a connection keeps it for long: then no more arrive. */
  const look = (): void => {
    looks = held.length > progress ? 0 : looks + 1;
    progress = held.length;
    if (looks >= LOOKS) end(false);
    else timer = clock.timer(look, LOOK_MS);
  };
  const checkOutOne = async (): Promise<void> => {
    try {
      const connection = await checkOut(cluster, id);
      if (disposal !== undefined) {
        connection[disposal]();
        return;
      }
      held.push(connection);
      if (held.length === connectionLimit) end(true);
    } catch {
      // None can be opened: the server is gone, or mysql2 has taken the node offline.
      end(false);
    }
  };

  timer = isFeasible ? clock.timer(look, LOOK_MS) : clock.timer(() => end(false), 0);
  for (let count = 0; isFeasible && count < connectionLimit; count++) void checkOutOne();
  return stop;
}
