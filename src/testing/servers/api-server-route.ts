import type { Verb } from './api-server-access.js';
import { type ResourceName, resourceTypes } from './api-server-objects.js';
import { type StatusObject, statusObject } from './api-server-status.js';

/** A parsed path; an empty name means the collection, an empty namespace all namespaces. */
export interface ApiPath {
  readonly resource: ResourceName;
  readonly namespace: string;
  readonly name: string;
}

/** Parses a request's path; undefined for an unknown path. */
export function parseRoute(path: string): ApiPath | undefined {
  for (const { name: resource, root } of Object.values(resourceTypes)) {
    if (!path.startsWith(`${root}/`)) continue;
    const parts = path
      .slice(root.length + 1)
      .split('/')
      .map(decodeURIComponent);
    if (parts[0] === 'namespaces' && parts[2] === resource && parts.length <= 4) {
      return { resource, namespace: parts[1] as string, name: parts[3] ?? '' };
    }
    if (parts[0] === resource && parts.length === 1) return { resource, namespace: '', name: '' };
  }
  return undefined;
}

/** The verb of a request, by its path and query. */
export function verbOf({ name }: ApiPath, query: URLSearchParams): Verb {
  if (name !== '') return 'get';
  return isTrue(query.get('watch')) ? 'watch' : 'list';
}

/** Why the parameters of a watch are refused, in a real API server's words; undefined if they are valid. */
export function refuseWatch(query: URLSearchParams, streamingLists: boolean): StatusObject | undefined {
  const resourceVersion = query.get('resourceVersion') ?? '';
  const initial = query.get('sendInitialEvents') ?? '';
  const match = query.get('resourceVersionMatch') ?? '';
  if (initial !== '' && !streamingLists) {
    const forbidden = 'is forbidden for watch unless the WatchList feature gate is enabled';
    return statusObject(
      422,
      `ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents ${forbidden}`,
    );
  }
  const invalid = 'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden:';
  if (initial !== '' && match !== 'NotOlderThan') {
    return statusObject(422, `${invalid} sendInitialEvents requires setting resourceVersionMatch to NotOlderThan`);
  }
  if (initial === '' && match !== '')
    return statusObject(422, `${invalid} resourceVersionMatch is forbidden for watch`);
  if (/^\d*$/.test(resourceVersion)) return undefined;
  // A real API server answers this with a Status without a reason.
  return statusObject(500, `strconv.ParseUint: parsing "${resourceVersion}": invalid syntax`);
}

export function isTrue(value: string | null): boolean {
  return value === 'true' || value === '1';
}

export function acceptsJson(accept: string | undefined): boolean {
  return accept === undefined || accept === '' || /\*\/\*|application\/(json|\*)/.test(accept);
}
