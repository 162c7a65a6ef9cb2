import type { ApiClient, ApiReply } from './api-client.js';
import { ApiFailure, statusFailure } from './api-failure.js';
import { isObject, metadataOf, textOf, type Unchecked } from './endpoint-slice.js';
import { parseStatus } from './watch-event.js';

/** Objects a page; counts only where the API server reads its store itself. */
const PAGE_LIMIT = '500';
/** A list of 5,000 endpoints has 1.2 MiB. What is longer than this is no list of one Service. */
const MAX_LIST_BYTES = 128 * 1024 * 1024;
const MAX_ERROR_BYTES = 64 * 1024;

/** Everything a list said. */
export interface SliceList {
  /** The version to watch from. */
  readonly version: string;
  readonly items: readonly Unchecked[];
}

/**
 * Lists all slices a selector finds, page after page (W2). A version of "0" asks for what the server has at hand, ""
 * for a consistent read, any other for nothing older. Rejects with an ApiFailure, or what the client rejects with.
 */
export async function listSlices(
  client: ApiClient,
  path: string,
  selector: string,
  version: string,
  signal: AbortSignal,
): Promise<SliceList> {
  const query = { labelSelector: selector, resourceVersion: version };
  // With a version above 0 a limit would mean "exactly this version".
  const paged = version === '' || version === '0';
  try {
    return await listPages(client, path, paged ? { ...query, limit: PAGE_LIMIT } : query, signal);
  } catch (error) {
    if (!(error instanceof PageExpired)) throw error;
    // The pages' version is gone: everything again, in one piece.
    return await listPages(client, path, { ...query, resourceVersion: '' }, signal);
  }
}

class PageExpired extends Error {}

async function listPages(
  client: ApiClient,
  path: string,
  query: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<SliceList> {
  const items: Unchecked[] = [];
  const budget = { bytes: MAX_LIST_BYTES };
  let next = '';
  for (;;) {
    // A continue token carries the version.
    const page = next === '' ? query : { ...query, resourceVersion: '', continue: next };
    const reply = await client.get({ path, query: page, gzip: true, signal });
    if (reply.status !== 200) {
      const failure = await readFailure(reply);
      if (failure.kind === 'expired' && next !== '') throw new PageExpired();
      throw failure;
    }
    const list = await readPage(reply, budget);
    items.push(...list.items);
    if (list.next === '') return { version: list.version, items };
    next = list.next;
  }
}

async function readPage(
  reply: ApiReply,
  budget: { bytes: number },
): Promise<{ readonly version: string; readonly items: readonly Unchecked[]; readonly next: string }> {
  const body = await readBody(reply, budget.bytes);
  budget.bytes -= body.length;
  let list: unknown;
  try {
    list = JSON.parse(body.toString());
  } catch (cause) {
    throw new ApiFailure('protocol', 'list', 'the list is no JSON', { cause });
  }
  const metadata = metadataOf(list);
  const version = textOf(metadata?.resourceVersion);
  // Go writes an empty list as null now and then.
  const items = isObject(list) ? (list.items ?? []) : undefined;
  if (version === undefined || !Array.isArray(items)) {
    throw new ApiFailure('protocol', 'list', 'the answer to a list has no items or no resourceVersion');
  }
  for (const item of items) {
    if (textOf(metadataOf(item)?.name) === undefined)
      throw new ApiFailure('protocol', 'list', 'an item of the list has no name');
  }
  return { version, items, next: textOf(metadata?.continue) ?? '' };
}

/** Reads an answer other than 200. */
export async function readFailure(reply: ApiReply): Promise<ApiFailure> {
  let status: unknown;
  try {
    status = JSON.parse((await readBody(reply, MAX_ERROR_BYTES)).toString());
  } catch {
    // Plain text, or cut short: the number says enough.
  }
  return statusFailure(reply.status, parseStatus(status), reply.retryAfterMs);
}

async function readBody(reply: ApiReply, maxBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  await reply.read((chunk) => {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new ApiFailure('protocol', 'size', `the answer is longer than ${maxBytes} bytes`);
    chunks.push(chunk);
  });
  return Buffer.concat(chunks);
}
