import { type ResourceName, resourceTypes } from './api-server-objects.js';
import { type StatusObject, statusObject } from './api-server-status.js';

/** What a client may request of a collection: all objects, their changes, or one object. */
export type Verb = 'list' | 'watch' | 'get';

/** One permission: which verbs are allowed on which resources of a namespace. `'*'` means any. */
export interface Grant {
  /** The namespace in which the permission holds; `'*'` = all. */
  readonly namespace: string;
  /** What the permission allows in its namespace: `list`, `watch`, `get`, or `'*'` for all three. */
  readonly verbs: readonly (Verb | '*')[];
  /** The kinds of objects that the permission is for. */
  readonly resources: readonly (ResourceName | '*')[];
}

/** The bearer tokens that the API server knows, and what each may do. */
export type Tokens = Readonly<Record<string, 'all' | readonly Grant[]>>;

/** A request as access control sees it. An empty name means the collection, an empty namespace all namespaces. */
export interface AccessRequest {
  readonly verb: Verb;
  readonly resource: ResourceName;
  readonly namespace: string;
  readonly name: string;
}

/**
 * Decides whether a request is allowed, as a real API server does: without a token it is an anonymous user's, who may do nothing (403); an
 * unknown token is refused with 401, a known token without the permission with 403. Returns undefined if the request is allowed. Without
 * `tokens` everything is allowed.
 */
export function checkAccess(
  tokens: Tokens | undefined,
  authorization: string | undefined,
  request: AccessRequest,
): StatusObject | undefined {
  if (tokens === undefined) return undefined;
  const token = /^Bearer (.+)$/i.exec(authorization ?? '')?.[1];
  if (token === undefined) return forbidden('system:anonymous', request);
  const grants = Object.hasOwn(tokens, token) ? tokens[token] : undefined;
  if (grants === undefined) return statusObject(401, 'Unauthorized');
  if (grants === 'all') return undefined;
  const allowed = grants.some(
    (grant) =>
      (grant.namespace === '*' || grant.namespace === request.namespace) &&
      (grant.verbs.includes('*') || grant.verbs.includes(request.verb)) &&
      (grant.resources.includes('*') || grant.resources.includes(request.resource)),
  );
  return allowed ? undefined : forbidden('system:serviceaccount:test:test', request);
}

/** Creates the refusal in a real API server's words: user, verb, resource and scope. */
export function forbidden(user: string, request: AccessRequest): StatusObject {
  const { verb, resource, namespace, name } = request;
  const { group } = resourceTypes[resource];
  const what = `${resource}${group === '' ? '' : `.${group}`}${name === '' ? '' : ` "${name}"`}`;
  const scope = namespace === '' ? 'at the cluster scope' : `in the namespace "${namespace}"`;
  const message = `${what} is forbidden: User "${user}" cannot ${verb} resource "${resource}" in API group "${group}" ${scope}`;
  return statusObject(403, message, {
    details: { kind: resource, ...(group === '' ? {} : { group }), ...(name === '' ? {} : { name }) },
  });
}
