import type { PoolConnection } from 'mysql2/promise';
import { offAbort, onAbort } from '../../kit/index.js';
import type { Namespace } from './namespace.js';
import type { Service } from './service.js';

/**
 * Opens a number of connections of a service: checks them all out together, then releases them. Rejects as a checkout does, or with
 * the signal's reason.
 */
export async function openConnections(
  service: Service,
  namespace: Namespace,
  count: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  await firstAttempts(service, count, signal);
  let isOver = false;
  const held: PoolConnection[] = [];
  const checkOut = async (): Promise<void> => {
    const connection = await namespace.getConnection();
    if (isOver) connection.release();
    else held.push(connection);
  };
  try {
    await orAborted(Promise.all(Array.from({ length: count }, checkOut)), signal);
  } finally {
    isOver = true;
    for (const connection of held) connection.release();
  }
}

/**
 * Waits until enough servers are connected, or none is being connected to for the first time: otherwise the first would get all
 * connections. Waits at most as long as a caller may wait.
 */
async function firstAttempts(service: Service, count: number, signal: AbortSignal | undefined): Promise<void> {
  const { balancer, changes, clock, waitTimeoutMs } = service;
  let isLate = false;
  const isDone = (): boolean => {
    const { endpoints } = balancer.snapshot();
    const ready = endpoints.filter(({ state }) => state === 'ready').length;
    return isLate || ready >= count || endpoints.every(({ state }) => state !== 'idle' && state !== 'connecting');
  };
  if (isDone()) return;
  const timer = clock.timer(() => {
    isLate = true;
    changes.happened();
  }, waitTimeoutMs);
  // A caller waits.
  timer.ref();
  try {
    while (!isDone()) await changes.next(signal);
  } finally {
    timer.cancel();
  }
}

async function orAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  signal.throwIfAborted();
  let cut = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    cut = () => reject(signal.reason);
    onAbort(signal, cut);
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    promise.catch(() => {});
    offAbort(signal, cut);
  }
}
