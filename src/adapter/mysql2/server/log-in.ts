import { createConnection, type PoolOptions } from 'mysql2';

/** Logs in to a server and out again. Rejects when it cannot, or when `signal` aborts; then nothing stays open. */
export async function logIn(options: PoolOptions, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const connection = createConnection(options);
  let aborted: (() => void) | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      aborted = () => reject(signal.reason);
      signal.addEventListener('abort', aborted, { once: true });
      connection.once('connect', () => resolve());
      connection.on('error', reject); // stays: an error after this would be thrown
    });
  } catch (error) {
    connection.destroy();
    throw error;
  } finally {
    if (aborted !== undefined) signal.removeEventListener('abort', aborted);
  }
  // A server that does not answer the goodbye is not waited for.
  connection.end(() => connection.destroy());
}
