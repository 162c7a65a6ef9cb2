import type { ChannelOptions, experimental } from '@grpc/grpc-js';
import type { Connection, Endpoint, Transport } from '../../index.js';
import { ConnectionNumbers } from './connection-numbers.js';
import type { LeafContext } from './leaf.js';
import type { ResolvedGrpcOptions } from './options.js';
import { PodConnection } from './pod-connection.js';

/** Opens connections to pods with the subchannels of one channel. */
export class GrpcTransport implements Transport<PodConnection> {
  readonly protocol: Transport<unknown>['protocol'];
  readonly #context: LeafContext;
  readonly #options: ResolvedGrpcOptions;
  readonly #connections = new Set<PodConnection>();
  #released = false;

  /**
   * @param grew Called when a pod can take more calls than before.
   * @param target What the channel was created with, for metrics.
   */
  constructor(
    helper: experimental.ChannelControlHelper,
    args: ChannelOptions,
    options: ResolvedGrpcOptions,
    grew: () => void,
    target = '',
  ) {
    const attempts = { succeeded: 0, failed: 0, disconnections: 0 };
    this.protocol = Object.freeze({
      conventions: 'grpc',
      attributes: Object.freeze({ 'grpc.target': target }),
      connections: attempts,
    });
    this.#context = { helper, args, numbers: new ConnectionNumbers(), attempts, grew };
    this.#options = options;
  }

  async connect(endpoint: Endpoint, signal: AbortSignal): Promise<Connection<PodConnection>> {
    signal.throwIfAborted();
    if (this.#released) throw new Error('the channel is idle or closed');
    const { connections, maxConcurrentStreams, healthService, clock, rng } = this.#options;
    const connection = new PodConnection({
      endpoint,
      context: this.#context,
      connections,
      maxStreams: maxConcurrentStreams,
      healthService,
      clock,
      rng,
    });
    this.#connections.add(connection);
    void connection.closed.then(() => this.#connections.delete(connection));
    const onAbort = (): void => connection.release('connecting was called off');
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await connection.opened;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /**
   * Releases every connection within this turn. When a channel closes, grpc-js drops unused subchannels right after its policy was
   * destroyed; connections that are still held then stay open for up to 10 s.
   */
  release(): void {
    this.#released = true;
    for (const connection of this.#connections) connection.release('the channel is idle or closed');
  }
}
