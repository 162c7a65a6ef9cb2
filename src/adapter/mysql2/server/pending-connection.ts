import type { Socket } from 'node:net';
import type { PoolConnection } from 'mysql2';
import { type Clock, type Endpoint, endpointAddress, type Timer } from '../../../index.js';
import type { Credentials } from './credentials.js';
import { dial } from './dial.js';
import type { ServerSettings } from './settings.js';

/** A socket whose handshake is under way. */
export interface PendingConnection {
  readonly socket: Socket;
  /** What it logs in with, where functions provide that. */
  readonly credentials: Credentials | undefined;
  /** Limits the time for connecting and the handshake together. */
  readonly timer: Timer;
}

/** Opens a socket, for mysql2 to start the handshake on. It is destroyed if that takes too long. */
export function openPending(
  endpoint: Endpoint,
  { dial: options, connectTimeoutMs }: ServerSettings,
  clock: Clock,
  credentials: Credentials | undefined,
): PendingConnection {
  const socket = dial(endpoint, options);
  const timer = clock.timer(() => {
    const message = `${endpointAddress(endpoint)} did not finish the handshake within ${connectTimeoutMs} ms`;
    socket.destroy(Object.assign(new Error(message), { code: 'ETIMEDOUT', syscall: 'connect' }));
  }, connectTimeoutMs);
  return { socket, credentials, timer };
}

/** Whether a connection is what became of a pending one. */
export function isMadeFrom({ socket }: PendingConnection, connection: PoolConnection): boolean {
  const { stream } = connection as unknown as { readonly stream: Socket };
  if (socket === stream) return true;
  // With TLS the stream is a layer above the socket: what both have in common is their local address and port.
  const { localAddress, localPort } = stream;
  return localPort !== undefined && socket.localPort === localPort && socket.localAddress === localAddress;
}
