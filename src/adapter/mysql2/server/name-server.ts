import type { PoolConnection } from 'mysql2';
import type { Endpoint } from '../../../index.js';

/** A connection of a cluster: it says which server it leads to. */
export interface ServerOfConnection {
  /** The server's endpoint: its address and port, its pod's name, its zone. */
  readonly endpoint: Endpoint;
}

/**
 * Writes on a connection which server it leads to. Traces (mysql2's channels, OpenTelemetry) read it from the connection's
 * `config`; the Service's name, which is there until the handshake, is what TLS asks for.
 */
export function nameServer(connection: PoolConnection, endpoint: Endpoint): void {
  const { config } = connection as unknown as { readonly config: object };
  // Older versions of mysql2 have one for all connections of a pool.
  const own: object = Object.create(Object.getPrototypeOf(config), Object.getOwnPropertyDescriptors(config));
  Object.assign(own, { host: endpoint.address, port: endpoint.port });
  Object.assign(connection, { config: own, endpoint });
}
