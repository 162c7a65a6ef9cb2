import type { Endpoint } from '../endpoint/endpoint.js';
import type { Observer } from '../observe/observer.js';
import type { Warnings } from '../observe/warnings.js';
import type { ConnectGate } from './connect-gate.js';
import type { PoolContext } from './pool-options.js';
import type { Connection, Transport } from './transport.js';

/** What a subchannel needs from the pool that owns it. */
export interface SubchannelOwner<C> extends PoolContext {
  readonly transport: Transport<C>;
  readonly observer: Observer;
  readonly warnings: Warnings;
  readonly gate: ConnectGate;
  /** Called when the subchannel became ready, or is ready no longer. */
  readinessChanged(): void;
  /** Called when the subchannel's connection can carry more calls than before, so that waiting callers may be served. */
  capacityGained(): void;
  /** Called when a connection could not be opened or was lost, so that the resolver looks again. */
  troubled(): void;
  /**
   * Takes over a connection that gets no new calls. Running calls are cut at once, or may finish within the drain timeout; with `isNeeded`,
   * also later while that returns true. Returns a function that cuts them.
   */
  retire(connection: Connection<C>, how: 'finish' | 'cut', isNeeded?: () => boolean): () => void;
  /** An attempt to connect was called off while the transport connects; `dial` settles when it has finished. */
  calledOff(dial: Promise<unknown>): void;
  /** Called when the subchannel is `closed`. It is never used again. */
  subchannelClosed(subchannel: { readonly endpoint: Endpoint }): void;
}
