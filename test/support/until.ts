/**
 * Resolves once `condition` holds; rejects with `what` after `timeoutMs`. It checks every few ms, less often the longer it takes, since
 * many conditions ask another process. For states only a real server or process can bring about. The timeout guards against hanging and says nothing about speed.
 */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  timeoutMs = 120_000,
): Promise<void> {
  const beganMs = performance.now();
  while (!(await condition())) {
    const waitedMs = performance.now() - beganMs;
    if (waitedMs > timeoutMs) throw new Error(`waited ${timeoutMs} ms for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, Math.min(5 + waitedMs / 20, 50)));
  }
}
