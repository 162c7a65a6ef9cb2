import type { Cluster, Worker } from 'node:cluster';

/** The part of Node's `process` in a worker that evenkeel uses. */
export type WorkerProcess = Pick<NodeJS.Process, 'on' | 'send'>;

/**
 * The listeners to messages that a worker receives, which share one listener of Node's: Node warns about more than ten, and an app may call
 * more Services.
 */
const listeners = new WeakMap<WorkerProcess, Set<(message: unknown) => void>>();

/** Listens to messages from the primary in a worker. Returns a function that ends this. Messages of other packages arrive too. */
export function listenToPrimary(worker: WorkerProcess, listener: (message: unknown) => void): () => void {
  let all = listeners.get(worker);
  if (all === undefined) {
    const newListeners = new Set<(message: unknown) => void>();
    worker.on('message', (message) => {
      for (const one of newListeners) one(message);
    });
    listeners.set(worker, newListeners);
    all = newListeners;
  }
  const list = all;
  list.add(listener);
  return () => list.delete(listener);
}

/** Sends a message from a worker to its primary. Does not fail if the primary is gone. */
export function tellPrimary(worker: WorkerProcess, message: object): void {
  worker.send?.(message, undefined, undefined, () => {});
}

/** Listens, in a cluster's primary, to the workers. */
export interface WorkersListener {
  /** A worker has sent a message, which may be one of another package. */
  message(worker: Worker, message: unknown): void;
  /** A worker has gone. May be called twice for one worker. */
  gone(worker: Worker): void;
}

/** All listeners to the workers of one cluster, and the function that removes Node's listeners. */
interface ClusterListeners {
  readonly parts: Set<WorkersListener>;
  readonly off: () => void;
}

const clusters = new WeakMap<Cluster, ClusterListeners>();

/** Listens, in a cluster's primary, to its workers. All such listeners share three of Node's. Returns a function that ends this. */
export function listenToWorkers(cluster: Cluster, listener: WorkersListener): () => void {
  const { parts, off } = clusters.get(cluster) ?? listen(cluster);
  parts.add(listener);
  return () => {
    if (parts.delete(listener) && parts.size === 0) off();
  };
}

function listen(cluster: Cluster): ClusterListeners {
  const parts = new Set<WorkersListener>();
  const onMessage = (worker: Worker, message: unknown): void => {
    for (const part of parts) part.message(worker, message);
  };
  const gone = (worker: Worker): void => {
    for (const part of parts) part.gone(worker);
  };
  cluster.on('message', onMessage);
  cluster.on('disconnect', gone);
  cluster.on('exit', gone);
  const off = (): void => {
    clusters.delete(cluster);
    cluster.off('message', onMessage);
    cluster.off('disconnect', gone);
    cluster.off('exit', gone);
  };
  const all = { parts, off };
  clusters.set(cluster, all);
  return all;
}
