import type { Cluster, Worker } from 'node:cluster';

/** The part of a Node worker process that is used. */
export type WorkerProcess = Pick<NodeJS.Process, 'on' | 'send'>;

/**
 * The listeners to messages to a worker process, all behind one listener of Node's: Node warns about more than ten, and an app may call
 * more Services.
 */
const listeners = new WeakMap<WorkerProcess, Set<(message: unknown) => void>>();

/** Listens to messages from the primary to a worker. Returns a function that stops it. Other packages' messages arrive too. */
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

/** Sends a message to the primary of this worker; a primary that is gone is not an error. */
export function tellPrimary(worker: WorkerProcess, message: object): void {
  worker.send?.(message, undefined, undefined, () => {});
}

/** A listener in a primary to the workers of its cluster. */
export interface WorkersListener {
  /** A message from a worker; messages of other packages arrive too. */
  message(worker: Worker, message: unknown): void;
  /** A worker has gone. May be called twice for the same worker. */
  gone(worker: Worker): void;
}

/** The listeners to the workers of one cluster. */
interface ClusterListeners {
  readonly parts: Set<WorkersListener>;
  readonly off: () => void;
}

const clusters = new WeakMap<Cluster, ClusterListeners>();

/** Listens to the workers of a cluster, in its primary, with three of Node's listeners in total. Returns a function that stops it. */
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
