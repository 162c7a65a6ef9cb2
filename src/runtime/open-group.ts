import cluster from 'node:cluster';
import { BroadcastChannel, isMainThread, threadId } from 'node:worker_threads';
import { memberNumber, type OpenGroup } from './group.js';
import { type ThreadChannel, ThreadGroup } from './thread-group.js';
import { WorkerGroup } from './worker-group.js';

/** The group of this process or thread: of workers in a worker's main thread, otherwise of threads. */
export const openGroup: OpenGroup = (name, clock, listener) => {
  const { worker } = cluster;
  if (isMainThread && cluster.isWorker && worker !== undefined && !isForkedByPm2(process.env)) {
    return new WorkerGroup(name, memberNumber(worker.id), clock, process, listener);
  }
  const channel = new BroadcastChannel(`evenkeel ${name}`) as unknown as ThreadChannel;
  return new ThreadGroup(memberNumber(threadId), clock, channel, process, listener);
};

/** PM2 is the primary of its workers, and never answers them. */
function isForkedByPm2({ pm_id: id, exec_mode: mode }: Readonly<Record<string, string | undefined>>): boolean {
  return id !== undefined && mode === 'cluster_mode';
}
