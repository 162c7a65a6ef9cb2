/**
 * Handles the rejection of a promise that application code returned where a result is expected at once. Nobody waits for that promise, and
 * its rejection would end the process.
 */
export function ignoreRejection(result: unknown): void {
  if (result instanceof Promise) result.catch(() => {});
}
