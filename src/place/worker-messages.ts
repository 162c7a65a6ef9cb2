import type { Cluster, Worker } from 'node:cluster';

/** What of a worker process is used. */
export type WorkerProcess = Pick<NodeJS.Process, 'on' | 'send'>;

/** The listeners to messages to a process, behind one of Node's: Node warns about more than ten, and an app may call more Services. */
const listeners = new WeakMap<WorkerProcess, Set<(message: unknown) => void>>();

/** Listens to messages from the primary to a worker. Returns a function that stops it. Other packages' messages arrive too. */
export function hearPrimary(worker: WorkerProcess, heard: (message: unknown) => void): () => void {
  let all = listeners.get(worker);
  if (all === undefined) {
    const told = new Set<(message: unknown) => void>();
    worker.on('message', (message) => {
      for (const one of told) one(message);
    });
    listeners.set(worker, told);
    all = told;
  }
  const list = all;
  list.add(heard);
  return () => list.delete(heard);
}

/** Sends to the primary; a primary that is gone is not an error. */
export function tellPrimary(worker: WorkerProcess, message: object): void {
  worker.send?.(message, undefined, undefined, () => {});
}

/** A listener in a primary. */
export interface WorkersListener {
  /** Other packages' messages arrive too. */
  heard(worker: Worker, message: unknown): void;
  /** May come twice. */
  gone(worker: Worker): void;
}

/** The listeners of one cluster. */
interface Heard {
  readonly parts: Set<WorkersListener>;
  readonly off: () => void;
}

const clusters = new WeakMap<Cluster, Heard>();

/** Listens to the workers of a cluster, in its primary, with three of Node's listeners in total. Returns a function that stops it. */
export function hearWorkers(cluster: Cluster, listener: WorkersListener): () => void {
  const { parts, off } = clusters.get(cluster) ?? listen(cluster);
  parts.add(listener);
  return () => {
    if (parts.delete(listener) && parts.size === 0) off();
  };
}

function listen(cluster: Cluster): Heard {
  const parts = new Set<WorkersListener>();
  const heard = (worker: Worker, message: unknown): void => {
    for (const part of parts) part.heard(worker, message);
  };
  const gone = (worker: Worker): void => {
    for (const part of parts) part.gone(worker);
  };
  cluster.on('message', heard);
  cluster.on('disconnect', gone);
  cluster.on('exit', gone);
  const off = (): void => {
    clusters.delete(cluster);
    cluster.off('message', heard);
    cluster.off('disconnect', gone);
    cluster.off('exit', gone);
  };
  const all = { parts, off };
  clusters.set(cluster, all);
  return all;
}
