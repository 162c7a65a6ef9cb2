import type { IncomingMessage } from 'node:http';
import type { Verb } from './api-server-access.js';
import type { ResourceName } from './api-server-objects.js';

/** A request as the server saw it. */
export interface RecordedRequest {
  readonly verb: Verb | 'other';
  readonly path: string;
  readonly resource: ResourceName | undefined;
  readonly namespace: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: IncomingMessage['headers'];
  /** The status that was sent; 0 until there is a response. */
  status: number;
}
