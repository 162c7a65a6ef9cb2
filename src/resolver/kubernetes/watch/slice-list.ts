import type { ApiClient, ApiReply } from '../api/api-client.js';
import { ApiFailure } from '../api/api-failure.js';
import { type ReadBudget, readFailure, readJson } from '../api/read-json.js';
import { isObject, metadataOf, textOf, type Unchecked } from '../api/unchecked.js';

/** How many EndpointSlices the API server sends per page of a list. The server ignores it for a list that it answers from its cache. */
const PAGE_LIMIT = '500';
/**
 * The most bytes of a list of EndpointSlices, uncompressed. 5,000 endpoints take 1.2 to 1.6 MiB, so 50,000 fit, which is the default of
 * `maxEndpoints`.
 */
const MAX_LIST_BYTES = 20 * 1024 * 1024;
/** The most pages of a list. Without this limit, a faulty server could send further pages forever. */
const MAX_PAGES = 1_000;

/** A complete list of the slices of a Service. */
export interface SliceList {
  /** The resource version of the list; a watch that starts from it misses nothing. */
  readonly version: string;
  readonly items: readonly Unchecked[];
}

/**
 * Lists all slices that match a label selector, page by page. The version "0" asks for whatever the API server has in its cache, "" asks
 * for the state in its database, and any other version asks for a state that is at least as new. Rejects with an ApiFailure, or with the
 * error of the client.
 */
export async function listSlices(
  client: ApiClient,
  path: string,
  selector: string,
  version: string,
  signal: AbortSignal,
): Promise<SliceList> {
  const query = { labelSelector: selector, resourceVersion: version };
  // With a version above 0, the API server would take a limit to mean "exactly this version", which it may no longer have.
  const paged = version === '' || version === '0';
  try {
    return await listPages(client, path, paged ? { ...query, limit: PAGE_LIMIT } : query, signal);
  } catch (error) {
    if (!(error instanceof PageExpired)) throw error;
    // The version of the list's pages is no longer known to the server: read everything again, in one response.
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
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    // The continue token of the last page already includes the version of the list.
    const page = next === '' ? query : { ...query, resourceVersion: '', continue: next };
    const reply = await client.get({ path, query: page, gzip: true, signal });
    if (reply.status !== 200) {
      const failure = await readFailure(reply);
      if (failure.kind === 'expired' && next !== '') throw new PageExpired();
      throw failure;
    }
    const list = await readPage(reply, budget);
    for (const item of list.items) items.push(item);
    if (list.next === '') return { version: list.version, items };
    next = list.next;
  }
  throw new ApiFailure('protocol', 'size', `the list has more than ${MAX_PAGES} pages`);
}

async function readPage(
  reply: ApiReply,
  budget: ReadBudget,
): Promise<{ readonly version: string; readonly items: readonly Unchecked[]; readonly next: string }> {
  const list = await readJson(reply, budget, 'list');
  const metadata = metadataOf(list);
  const version = textOf(metadata?.resourceVersion);
  // Some API servers send null for an empty list.
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
