import type { PageData, UnbalancedClient } from '../admin/page-data.js';
import { offAbort, onAbort } from '../runtime/abort-listeners.js';
import { systemClock } from '../runtime/clock.js';

const TIMEOUT_MS = 5_000;
/** The longest admin page that is read, in bytes: about 100,000 pods. */
const MAX_BYTES = 64 * 1024 * 1024;

/**
 * Reads from the admin page at `url`, which ends with a slash, the clients that `evenkeel/register` found and does not balance. Resolves to
 * undefined if the process does not use it. Rejects if there is no page, or if reading takes longer than 5 s.
 */
export async function readUnbalanced(url: URL, signal: AbortSignal): Promise<readonly UnbalancedClient[] | undefined> {
  const reading = new AbortController();
  const stop = (): void => reading.abort();
  onAbort(signal, stop);
  const late = new Error(`no complete answer within ${TIMEOUT_MS / 1_000} s`);
  const timer = systemClock.timer(() => reading.abort(late), TIMEOUT_MS);
  try {
    const response = await fetch(new URL('balancers', url), { signal: reading.signal });
    if (!response.ok) throw new Error(`status ${response.status}; is this the address of createAdminHandler()?`);
    return unbalancedIn(await textOf(response));
  } finally {
    timer.cancel();
    offAbort(signal, stop);
    reading.abort();
  }
}

/** The body of the admin page. Throws if it is too long. */
async function textOf({ body }: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    if (bytes > MAX_BYTES) throw new Error(`its answer is longer than ${MAX_BYTES / 1024 / 1024} MiB`);
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

function unbalancedIn(text: string): readonly UnbalancedClient[] | undefined {
  try {
    const { balancers, unbalanced } = JSON.parse(text) as { [K in keyof PageData]?: unknown };
    if (Array.isArray(balancers)) return Array.isArray(unbalanced) ? unbalanced : undefined;
  } catch {
    // The response is not JSON, so it is no admin page.
  }
  throw new Error('this is no admin page of evenkeel');
}
