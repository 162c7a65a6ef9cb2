/**
 * Ignores the rejection of a promise that code of the application returned by mistake, where no promise is expected. Without this, the
 * rejection would end the process, because nobody waits for the promise.
 */
export function ignoreRejection(result: unknown): void {
  if (result instanceof Promise) result.catch(() => {});
}
