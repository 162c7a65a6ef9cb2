import { errors } from 'undici';
import type { Endpoint } from '../../index.js';
import { asPodLeftError, podLeftMessage } from '../http/pod-left.js';

/** What undici fails an attempt with that must not be sent any more, because its pod has left the Service. */
export function podLeftError(endpoint: Endpoint): Error {
  return asPodLeftError(new errors.SocketError(podLeftMessage(endpoint)));
}

/** What undici says of a request for a pool that is closed or destroyed. */
const givenUpCodes: ReadonlySet<unknown> = new Set(['UND_ERR_CLOSED', 'UND_ERR_DESTROYED']);

/**
 * Whether an attempt of which nothing was sent failed because its pod's last connection died, and the pool was given up, after
 * the pod was picked. undici's own Pool would have opened another connection for it.
 */
export function isGivenUpError(error: Error): boolean {
  return givenUpCodes.has((error as { readonly code?: unknown }).code);
}
