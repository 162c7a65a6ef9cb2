import { offAbort, onAbort } from '../runtime/abort-listeners.js';
import { systemClock } from '../runtime/clock.js';

const TIMEOUT_MS = 5_000;
/** The longest admin page that is read, in bytes: about 100,000 pods. */
const MAX_BYTES = 64 * 1024 * 1024;

/** A client that is not balanced, and what to change so that it is. */
export interface LeftClient {
  readonly what: string;
  readonly count: number;
  readonly remedy: string;
}

/**
 * Reads from the admin page at `url`, which ends with a slash, the clients that `evenkeel/register` found and does not balance. Resolves to
 * undefined if the process does not use it. Rejects if there is no page, or if reading takes longer than 5 s.
 */
export async function readLeftClients(url: URL, signal: AbortSignal): Promise<readonly LeftClient[] | undefined> {
  const reading = new AbortController();
  const stop = (): void => reading.abort();
  onAbort(signal, stop);
  const late = new Error(`no complete answer within ${TIMEOUT_MS / 1_000} s`);
  const timer = systemClock.timer(() => reading.abort(late), TIMEOUT_MS);
  try {
    const response = await fetch(new URL('balancers', url), { signal: reading.signal });
    if (!response.ok) throw new Error(`status ${response.status}; is this the address of createAdminHandler()?`);
    return leftClientsOf(await textOf(response));
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

function leftClientsOf(text: string): readonly LeftClient[] | undefined {
  try {
    const { balancers, left } = JSON.parse(text) as { balancers?: unknown; left?: unknown };
    if (Array.isArray(balancers)) return Array.isArray(left) ? left : undefined;
  } catch {
    // The response is not JSON, so it is no admin page.
  }
  throw new Error('this is no admin page of evenkeel');
}
