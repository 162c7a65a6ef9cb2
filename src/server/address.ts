import type { Socket } from 'node:net';
import { addressMark, connectionMark } from '../propagation/not-begun.js';

/** The part of a connection's socket that marks are made of. Everything is undefined if the connection is closed or not TCP. */
type ServedSocket = Partial<Pick<Socket, 'localAddress' | 'localPort' | 'remotePort'>> | null | undefined;

/** The mark of the address at which a request arrived; undefined if the request did not come over TCP. */
export function addressMarkOf(socket: ServedSocket): string | undefined {
  const { localAddress, localPort } = socket ?? {};
  return localAddress === undefined || localPort === undefined ? undefined : addressMark(localAddress, localPort);
}

/** The mark of the connection on which a request arrived; undefined if the request did not come over TCP. */
export function connectionMarkOf(socket: ServedSocket): string | undefined {
  const { localAddress, localPort, remotePort } = socket ?? {};
  if (localAddress === undefined || localPort === undefined || remotePort === undefined) return undefined;
  return connectionMark(localAddress, localPort, remotePort);
}
