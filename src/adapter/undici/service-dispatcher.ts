import type { Dispatcher, Pool } from 'undici';
import type { Balancer } from '../../index.js';
import type { DispatcherStats } from './transport.js';

/** An undici Dispatcher that spreads the requests of one Service over its pods. */
export interface ServiceDispatcher extends Dispatcher, AsyncDisposable {
  /** State and control: `ready()`, `snapshot()`. */
  readonly balancer: Balancer<Pool>;
  /** `close` was called. */
  readonly closed: boolean;
  /** `destroy` was called, or everything that ran at `close` has ended. */
  readonly destroyed: boolean;
  /** Connections and requests to the pods, counted on demand. */
  readonly stats: DispatcherStats;
}
