import type { Endpoint } from '../endpoint/endpoint.js';
import type { Observer } from '../observe/observer.js';
import type { Warnings } from '../observe/warnings.js';
import type { Clock } from '../runtime/clock.js';
import type { Rng } from '../runtime/rng.js';
import type { ConnectGate } from './connect-gate.js';
import type { ResolvedPoolOptions } from './pool-options.js';
import type { SubchannelRecording } from './subchannel-recording.js';
import type { Connection, Transport } from './transport.js';

/** What a subchannel needs from the pool that owns it. */
export interface SubchannelOwner<C> {
  readonly transport: Transport<C>;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly observer: Observer;
  readonly warnings: Warnings;
  readonly gate: ConnectGate;
  readonly options: ResolvedPoolOptions;
  readonly recording?: SubchannelRecording | undefined;
  /** The subchannel became ready or stopped being so. */
  readinessChanged(): void;
  /** The subchannel's connection can carry more calls: waiting callers may be served. */
  capacityGained(): void;
  /** A connection could not be opened or was lost: a hint for the resolver. */
  troubled(): void;
  /**
   * Takes over a connection that gets no new calls: running calls are cut immediately, or finish within the drain timeout; with `isNeeded`,
   * within the time until it returns false. The returned function cuts them.
   */
  retire(connection: Connection<C>, how: 'finish' | 'cut', isNeeded?: () => boolean): () => void;
  /** The subchannel reached `closed` and will never be used again. */
  subchannelClosed(subchannel: { readonly endpoint: Endpoint }): void;
}
