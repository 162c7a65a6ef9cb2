import { randomUUID } from 'node:crypto';
import { Socket } from 'node:net';
import { EvenkeelError } from '../../../index.js';
import type { ClusterFace } from './cluster-face.js';

/** mysql2 gives up after `removeNodeErrorCount` failures, 5 unless told otherwise. */
const MAX_FAILURES = 1_000;

/**
 * Rejects with EVENKEEL_OPTION unless the cluster has a `restoreNodeTimeout`. Nothing public tells; what mysql2 does with a
 * node that always fails does: it says that it is offline, or removes it. Our node for that has one connection at a time,
 * is never connected to anything, and is gone when this settles.
 */
export async function checkRestores(cluster: ClusterFace): Promise<void> {
  // Several may look at one cluster at once.
  const probe = `evenkeel:probe:${randomUUID()}`;
  let verdict: 'offline' | 'remove' | undefined;
  const offline = (id: string): void => {
    if (id === probe) verdict = 'offline';
  };
  const removed = (id: string): void => {
    if (id === probe) verdict = 'remove';
  };
  cluster.on('offline', offline);
  cluster.on('remove', removed);
  const failure = new EvenkeelError('EVENKEEL_CONNECT', 'evenkeel tries what this cluster does with a node that fails');
  cluster.add(probe, { connectionLimit: 1, stream: () => new Socket().destroy(failure) });
  try {
    for (let count = 0; count < MAX_FAILURES && verdict === undefined; count++) {
      await cluster.checkOut(probe).catch(() => {});
    }
  } finally {
    cluster.off('offline', offline);
    cluster.off('remove', removed);
    cluster.remove(probe);
  }
  if (verdict === 'offline') return;
  throw new EvenkeelError(
    'EVENKEEL_OPTION',
    'the cluster must be made with restoreNodeTimeout, such as 1000: without it mysql2 removes nodes that fail for good',
  );
}
