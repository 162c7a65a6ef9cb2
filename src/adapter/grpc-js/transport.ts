import type { ChannelOptions, experimental } from '@grpc/grpc-js';
import type { Connection, Endpoint, Transport } from '../../index.js';
import type { ResolvedGrpcOptions } from './options.js';
import { PodConnection, type PodContext } from './pod-connection.js';

/** Opens connections to pods with the subchannels of one channel. */
export class GrpcTransport implements Transport<PodConnection>, PodContext {
  readonly helper: experimental.ChannelControlHelper;
  readonly args: ChannelOptions;
  readonly options: ResolvedGrpcOptions;
  readonly #connections = new Set<PodConnection>();
  /**
   * The connection numbers in use, by the key of their endpoint. grpc-js shares a subchannel between all users with equal address and
   * arguments, and the number is one of these arguments: a replacement or second connection to a pod gets another number, while the first
   * connections of two clients of one Service are shared.
   */
  readonly #numbers = new Map<string, Set<number>>();
  #released = false;

  constructor(helper: experimental.ChannelControlHelper, args: ChannelOptions, options: ResolvedGrpcOptions) {
    this.helper = helper;
    this.args = args;
    this.options = options;
  }

  async connect(endpoint: Endpoint, signal: AbortSignal): Promise<Connection<PodConnection>> {
    signal.throwIfAborted();
    if (this.#released) throw new Error('the channel is idle or closed');
    const connection = new PodConnection(endpoint, this);
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
   * destroyed; connections that are still held then would stay open for up to 10 s.
   */
  release(): void {
    this.#released = true;
    for (const connection of this.#connections) connection.release('the channel is idle or closed');
  }

  takeNumber(key: string): number {
    let taken = this.#numbers.get(key);
    if (taken === undefined) {
      taken = new Set();
      this.#numbers.set(key, taken);
    }
    let number = 0;
    while (taken.has(number)) number++;
    taken.add(number);
    return number;
  }

  freeNumber(key: string, number: number): void {
    const taken = this.#numbers.get(key);
    if (taken?.delete(number) && taken.size === 0) this.#numbers.delete(key);
  }
}
