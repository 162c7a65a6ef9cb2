import type { IncomingMessage } from 'node:http';
import type { Verb } from './api-server-access.js';
import type { ResourceName } from './api-server-objects.js';

/** A request as the API server saw it. */
export interface RecordedRequest {
  /** The verb of the request; `other` for a path that the server does not have. */
  readonly verb: Verb | 'other';
  /** The path of the request without the query. */
  readonly path: string;
  /** The requested collection; undefined for a path that the server does not have. */
  readonly resource: ResourceName | undefined;
  /** The namespace in the path; empty = all namespaces. */
  readonly namespace: string;
  /** The query's parameters, decoded. */
  readonly query: Readonly<Record<string, string>>;
  /** The headers as Node parses them, with names in lower case. */
  readonly headers: IncomingMessage['headers'];
  /** The status that was sent; 0 until there is a response. */
  status: number;
}
