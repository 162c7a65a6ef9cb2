/**
 * Resolves once `condition` holds, checking every few ms; rejects with `what` after `timeoutMs`. For states only a real server or
 * process can bring about. The timeout guards against hanging and says nothing about speed.
 */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  timeoutMs = 120_000,
): Promise<void> {
  const end = performance.now() + timeoutMs;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`waited ${timeoutMs} ms for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
