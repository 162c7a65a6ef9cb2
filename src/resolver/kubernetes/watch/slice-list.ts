import type { ApiClient, ApiReply } from '../api/api-client.js';
import { ApiFailure } from '../api/api-failure.js';
import { type ReadBudget, readFailure, readJson } from '../api/read-json.js';
import { isObject, metadataOf, textOf, type Unchecked } from '../api/unchecked.js';

/** EndpointSlices per page of a list; only applies when the API server reads from its store. */
const PAGE_LIMIT = '500';
/** Total size of a list of EndpointSlices in bytes, uncompressed. 5,000 endpoints take 1.2 to 1.6 MiB; the 50,000 of `maxEndpoints` fit. */
const MAX_LIST_BYTES = 20 * 1024 * 1024;
/** Objects and arrays in all pages of a list; an endpoint has at most ten. */
const MAX_LIST_CONTAINERS = 1_000_000;
/** The most pages of a list: a loop of continue tokens must not be followed forever. */
const MAX_PAGES = 1_000;

/** A complete list of the slices of a Service. */
export interface SliceList {
  /** The resource version of the list, from which to watch. */
  readonly version: string;
  readonly items: readonly Unchecked[];
}

/**
 * Lists all slices of a selector, page by page. Version "0" requests whatever the server has cached, "" for a consistent read, any other
 * requests nothing older than that version. Rejects with an ApiFailure, or with the client's error.
 */
export async function listSlices(
  client: ApiClient,
  path: string,
  selector: string,
  version: string,
  signal: AbortSignal,
): Promise<SliceList> {
  const query = { labelSelector: selector, resourceVersion: version };
  // With a version above 0, a page limit would mean "exactly this version".
  const paged = version === '' || version === '0';
  try {
    return await listPages(client, path, paged ? { ...query, limit: PAGE_LIMIT } : query, signal);
  } catch (error) {
    if (!(error instanceof PageExpired)) throw error;
    // The version of the list's pages is gone: read everything again, in one response.
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
  const budget = { bytes: MAX_LIST_BYTES, containers: MAX_LIST_CONTAINERS };
  let next = '';
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    // A continue token includes the version of the list.
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
  // An API server, written in Go, sometimes writes an empty list as null.
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
