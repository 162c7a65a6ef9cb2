import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { PoolOptions } from 'mysql2';

interface FakeNode {
  readonly options: PoolOptions;
  readonly idle: FakePoolConnection[];
  errors: number;
  isOffline: boolean;
}

/** A connection of a fake node, on the socket our `stream` option gave. */
export class FakePoolConnection {
  readonly #node: FakeNode;
  readonly #socket: Socket;

  constructor(node: FakeNode, socket: Socket) {
    this.#node = node;
    this.#socket = socket;
  }

  release(): void {
    this.#node.idle.push(this);
  }

  destroy(): void {
    this.#socket.destroy();
  }
}

/** mysql2's PoolCluster as far as `followService` sees it: failures are counted, then a node is offline or removed. */
export class FakePoolCluster extends EventEmitter {
  readonly nodes = new Map<string, FakeNode>();
  /** Ids given to `remove`, in order. */
  readonly removals: string[] = [];
  readonly #restoreNodeTimeout: number;

  constructor({ restoreNodeTimeout = 0 }: { readonly restoreNodeTimeout?: number } = {}) {
    super();
    this.#restoreNodeTimeout = restoreNodeTimeout;
  }

  add(id: string, options: PoolOptions): void {
    if (!this.nodes.has(id)) this.nodes.set(id, { options, idle: [], errors: 0, isOffline: false });
  }

  remove(id: string): void {
    this.removals.push(id);
    this.#end(id);
  }

  getConnection(
    id: string,
    _selector: string,
    callback: (error: Error | null, connection?: FakePoolConnection) => void,
  ): undefined {
    const node = this.nodes.get(id);
    if (node === undefined || node.isOffline) {
      callback(new Error(node ? 'Pool does Not have online node.' : 'Pool does Not exist.'));
      return;
    }
    const idle = node.idle.pop();
    if (idle !== undefined) {
      node.errors = 0;
      callback(null, idle);
      return;
    }
    const socket = (node.options.stream as (given: unknown) => Socket)({});
    socket.on('error', (error) => {
      this.failed(id);
      callback(error);
    });
    queueMicrotask(() => {
      if (!socket.destroyed) callback(null, new FakePoolConnection(node, socket));
    });
  }

  /** Takes a connection of a node, as a user of the cluster would. */
  checkOut(id: string): Promise<FakePoolConnection> {
    return new Promise((resolve, reject) => {
      this.getConnection(id, 'RR', (error, connection) => (connection ? resolve(connection) : reject(error)));
    });
  }

  /** One more failed connection of a node. */
  failed(id: string): void {
    const node = this.nodes.get(id);
    if (node === undefined || ++node.errors < 5) return;
    if (this.#restoreNodeTimeout > 0) {
      node.isOffline = true;
      this.emit('offline', id);
      return;
    }
    this.#end(id);
    this.emit('remove', id);
  }

  #end(id: string): void {
    for (const connection of this.nodes.get(id)?.idle ?? []) connection.destroy();
    this.nodes.delete(id);
  }
}
