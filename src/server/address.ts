import { addressMark } from '../propagation/not-begun.js';
import type { HttpRequest } from './http-requests.js';

/** The mark of the address at which a request arrived; undefined if the request did not come over a socket. */
export function markOf({ socket }: HttpRequest): string | undefined {
  const { localAddress, localPort } = socket ?? {};
  return localAddress === undefined || localPort === undefined ? undefined : addressMark(localAddress, localPort);
}
