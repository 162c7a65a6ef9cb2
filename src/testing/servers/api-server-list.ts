import { type ResourceName, resourceTypes } from './api-server-objects.js';
import type { LabelMatcher } from './api-server-selector.js';
import { expiredStatus, type StatusObject, statusObject, tooLargeStatus } from './api-server-status.js';
import type { ObjectStore, StoredObject } from './api-server-store.js';

export interface ListQuery {
  readonly resource: ResourceName;
  readonly namespace: string;
  readonly matches: LabelMatcher;
  /** Whether the request has a selector, so that the response has no count of remaining items. */
  readonly selective: boolean;
  readonly resourceVersion: string;
  readonly resourceVersionMatch: string;
  /** The most objects on a page of the list; 0 = no limit. */
  readonly limit: number;
  readonly continueToken: string;
  /** The number of the current epoch of continue tokens: tokens from an earlier epoch have expired. */
  readonly epoch: number;
  /** Whether `limit` also applies to lists served from the cache (`resourceVersion=0`); a real API server ignores it there. */
  readonly pagesFromCache: boolean;
}

export type ListAnswer =
  | { readonly kind: 'page'; readonly body: string }
  | { readonly kind: 'failure'; readonly status: StatusObject }
  /** The requested version does not exist yet: the answer is 504 with this Status unless the version appears within 3 s. */
  | { readonly kind: 'early'; readonly wanted: number; readonly status: StatusObject };

interface ContinueToken {
  /** The version that all pages of a list share; -1 = continue at the latest version, inconsistently. */
  readonly rv: number;
  /** `namespace/name` of the last object that was sent, after which the next page continues. */
  readonly after: string;
  readonly epoch: number;
}

/** Answers a list request as a real API server does for each form of `resourceVersion`, `limit` and `continue`. */
export function answerList(store: ObjectStore, query: ListQuery): ListAnswer {
  const { resource, namespace, resourceVersion, resourceVersionMatch: match, continueToken } = query;
  if (continueToken !== '') return answerContinue(store, query);
  if (match !== '' && match !== 'NotOlderThan' && match !== 'Exact') {
    return invalid(`resourceVersionMatch: Unsupported value: "${match}"`);
  }
  if (match !== '' && resourceVersion === '') {
    return invalid(
      'resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided',
    );
  }
  if (!/^\d*$/.test(resourceVersion)) {
    return failure(
      statusObject(
        400,
        `Invalid value: "${resourceVersion}": strconv.ParseUint: parsing "${resourceVersion}": invalid syntax`,
      ),
    );
  }
  const wanted = Number(resourceVersion || '0');
  if (match === 'Exact' && wanted === 0)
    return invalid('resourceVersionMatch: Forbidden: "Exact" is forbidden for resourceVersion "0"');
  // Before `resourceVersionMatch` existed, a limit together with a version meant "exactly this version"; real API servers still do that.
  const exact = match === 'Exact' || (match === '' && wanted > 0 && query.limit > 0);
  if (wanted > store.revision) return { kind: 'early', wanted, status: tooLargeStatus(wanted, store.revision) };
  if (exact) {
    const objects = store.listAt(resource, namespace, wanted);
    if (objects === undefined) return failure(expiredStatus(wanted, store.compacted));
    return page(query, objects, wanted, '', query.limit);
  }
  const limit = resourceVersion !== '' && !query.pagesFromCache ? 0 : query.limit;
  return page(query, store.list(resource, namespace), store.revision, '', limit);
}

function answerContinue(store: ObjectStore, query: ListQuery): ListAnswer {
  const token = readToken(query.continueToken);
  if (token === undefined) return failure(statusObject(400, 'continue key is not valid: invalid format'));
  if (query.resourceVersion !== '' && query.resourceVersion !== '0') {
    return failure(statusObject(400, 'specifying resource version is not allowed when using continue'));
  }
  if (token.rv === -1) {
    return page(query, store.list(query.resource, query.namespace), store.revision, token.after, query.limit);
  }
  const objects = token.epoch < query.epoch ? undefined : store.listAt(query.resource, query.namespace, token.rv);
  if (objects === undefined) {
    const rest = writeToken({ rv: -1, after: token.after, epoch: query.epoch });
    const message =
      'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results.';
    return failure(statusObject(410, message, { continue: rest }));
  }
  return page(query, objects, token.rv, token.after, query.limit);
}

function page(
  query: ListQuery,
  objects: readonly StoredObject[],
  revision: number,
  after: string,
  limit: number,
): ListAnswer {
  const { kind, apiVersion } = resourceTypes[query.resource];
  const selected = objects.filter((stored) => keyOf(stored) > after && query.matches(stored.labels));
  const items = limit === 0 ? selected : selected.slice(0, limit);
  const left = selected.length - items.length;
  const metadata: Record<string, unknown> = { resourceVersion: String(revision) };
  if (left > 0) {
    metadata.continue = writeToken({
      rv: revision,
      after: keyOf(items[items.length - 1] as StoredObject),
      epoch: query.epoch,
    });
    if (!query.selective) metadata.remainingItemCount = left;
  }
  const head = JSON.stringify({ kind: `${kind}List`, apiVersion, metadata });
  const body = `${head.slice(0, -1)},"items":[${items.map((stored) => stored.itemText).join(',')}]}\n`;
  return { kind: 'page', body };
}

const keyOf = (stored: StoredObject): string => `${stored.namespace}/${stored.name}`;

function writeToken(token: ContinueToken): string {
  return Buffer.from(JSON.stringify(token)).toString('base64url');
}

function readToken(text: string): ContinueToken | undefined {
  try {
    const token = JSON.parse(Buffer.from(text, 'base64url').toString()) as Partial<ContinueToken>;
    if (typeof token.rv !== 'number' || typeof token.after !== 'string' || typeof token.epoch !== 'number')
      return undefined;
    return token as ContinueToken;
  } catch {
    return undefined;
  }
}

function failure(status: StatusObject): ListAnswer {
  return { kind: 'failure', status };
}

function invalid(message: string): ListAnswer {
  return failure(statusObject(422, `ListOptions.meta.k8s.io "" is invalid: ${message}`));
}
