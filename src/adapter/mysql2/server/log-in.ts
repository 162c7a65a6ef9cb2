import { createConnection, type PoolOptions } from 'mysql2';

/** Logs in to a server and out again. Rejects if that fails or `signal` aborts; then nothing is open. */
export async function logIn(options: PoolOptions, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const connection = createConnection(options);
  let aborted: (() => void) | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      aborted = () => reject(signal.reason);
      signal.addEventListener('abort', aborted, { once: true });
      connection.once('connect', () => resolve());
      connection.on('error', reject); // stays: a later error without a listener would be thrown
    });
  } catch (error) {
    connection.destroy();
    throw error;
  } finally {
    if (aborted !== undefined) signal.removeEventListener('abort', aborted);
  }
  // Does not wait for a server that does not respond to it.
  connection.end(() => connection.destroy());
}
