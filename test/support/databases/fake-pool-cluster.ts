import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { PoolOptions } from 'mysql2';

type Callback = (error: Error | null, connection?: FakePoolConnection) => void;

interface FakeNode {
  readonly options: PoolOptions;
  /** Connections open or opening. */
  size: number;
  readonly idle: FakePoolConnection[];
  readonly waiting: Callback[];
  errors: number;
  isOffline: boolean;
}

/** A connection of a fake node, over the socket from our `stream` option. */
export class FakePoolConnection {
  readonly #socket: Socket;
  readonly #cluster: { readonly hangUp: boolean };
  readonly #released: () => void;

  constructor(socket: Socket, cluster: { readonly hangUp: boolean }, released: () => void) {
    this.#socket = socket;
    this.#cluster = cluster;
    this.#released = released;
  }

  release(): void {
    this.#released();
  }

  /** mysql2 closes only its end: the socket closes when the server closes too. */
  destroy(): void {
    if (this.#cluster.hangUp) this.#socket.destroy();
  }
}

/** mysql2's PoolCluster as far as `followService` uses it: pools with a limit and a queue; failures take a node offline or remove it. */
export class FakePoolCluster extends EventEmitter {
  readonly nodes: Map<string, FakeNode> = new Map();
  /** Ids given to `remove`, in order. */
  readonly removals: string[] = [];
  /** Whether servers respond when a connection is ended. */
  hangUp = true;
  readonly #restoreNodeTimeout: number;

  constructor({ restoreNodeTimeout = 0 }: { readonly restoreNodeTimeout?: number } = {}) {
    super();
    this.#restoreNodeTimeout = restoreNodeTimeout;
  }

  add(id: string, options: PoolOptions): void {
    if (this.nodes.has(id)) return;
    this.nodes.set(id, { options, size: 0, idle: [], waiting: [], errors: 0, isOffline: false });
  }

  remove(id: string): void {
    this.removals.push(id);
    this.nodes.delete(id);
  }

  getConnection(id: string, _selector: string, callback: Callback): undefined {
    const node = this.nodes.get(id);
    if (node === undefined || node.isOffline) {
      callback(new Error(node ? 'Pool does Not have online node.' : 'Pool does Not exist.'));
      return;
    }
    this.#serve(id, node, callback);
  }

  /** Checks out a connection of a node, like a user of the cluster. */
  checkOut(id: string): Promise<FakePoolConnection> {
    return new Promise((resolve, reject) => {
      this.getConnection(id, 'RR', (error, connection) => (connection ? resolve(connection) : reject(error)));
    });
  }

  #serve(id: string, node: FakeNode, callback: Callback): void {
    const idle = node.idle.pop();
    if (idle !== undefined) {
      node.errors = 0;
      callback(null, idle);
    } else if (node.size >= (node.options.connectionLimit ?? 10)) {
      node.waiting.push(callback);
    } else {
      this.#open(id, node, callback);
    }
  }

  #open(id: string, node: FakeNode, callback: Callback): void {
    const socket = (node.options.stream as (given: unknown) => Socket)({});
    node.size++;
    const connection = new FakePoolConnection(socket, this, () => {
      const next = node.waiting.shift();
      if (next === undefined) node.idle.push(connection);
      else next(null, connection);
    });
    socket.once('error', (error) => {
      this.#failed(id, node);
      callback(error);
    });
    socket.once('close', () => {
      node.size--;
      const index = node.idle.indexOf(connection);
      if (index >= 0) node.idle.splice(index, 1);
      const next = node.waiting.shift();
      if (next !== undefined) this.#serve(id, node, next);
    });
    queueMicrotask(() => {
      if (!socket.destroyed) callback(null, connection);
    });
  }

  #failed(id: string, node: FakeNode): void {
    if (++node.errors < 5) return;
    if (this.#restoreNodeTimeout > 0) {
      node.isOffline = true;
      this.emit('offline', id);
    } else if (this.nodes.delete(id)) this.emit('remove', id);
  }
}
