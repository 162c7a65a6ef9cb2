/** Application code may be asynchronous where a result is expected at once. Nobody waits for it; its rejection would end the process. */
export function ignoreRejection(result: unknown): void {
  if (result instanceof Promise) result.catch(() => {});
}
