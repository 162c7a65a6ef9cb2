import type { Cluster, Worker } from 'node:cluster';

/** What of a worker process is used. */
export type WorkerProcess = Pick<NodeJS.Process, 'on' | 'send'>;

/** Who listens to messages to a process: Node warns of more than ten listeners, and an app may call more Services than that. */
const listeners = new WeakMap<WorkerProcess, Set<(message: unknown) => void>>();

/** Hears what its primary sends a worker. Returns how to stop. Messages of others pass here too: look whose they are. */
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

/** Who in a primary hears its workers. */
export interface WorkersListener {
  /** Messages of others pass here too: look whose they are. */
  heard(worker: Worker, message: unknown): void;
  /** May come twice. */
  gone(worker: Worker): void;
}

/** Who hears a cluster, and how its listeners are taken off. */
interface Heard {
  readonly parts: Set<WorkersListener>;
  readonly off: () => void;
}

const clusters = new WeakMap<Cluster, Heard>();

/** Hears the workers of a cluster, in its primary: three listeners, however many parts of evenkeel listen. Returns how to stop. */
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
