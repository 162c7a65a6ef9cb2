import type { Pool } from 'undici';

/** The connections and requests of a dispatcher, as undici counts those of a Pool. */
export interface DispatcherStats {
  /** Connections. */
  readonly connected: number;
  /** Of those, on which nothing runs. */
  readonly free: number;
  /** Requests that were not sent yet. */
  readonly pending: number;
  /** Of those, for which there is no connection. */
  readonly queued: number;
  /** Requests that were sent and not answered in full. */
  readonly running: number;
  /** Requests in all. */
  readonly size: number;
}

/** Those of `pools` together, beside `waiting` requests that have none yet. */
export function statsOf(pools: Iterable<Pool>, waiting: number): DispatcherStats {
  const sum = { connected: 0, free: 0, pending: waiting, queued: waiting, running: 0, size: waiting };
  for (const { stats } of pools) {
    sum.connected += stats.connected;
    sum.free += stats.free;
    sum.pending += stats.pending;
    sum.queued += stats.queued;
    sum.running += stats.running;
    sum.size += stats.size;
  }
  return sum;
}
