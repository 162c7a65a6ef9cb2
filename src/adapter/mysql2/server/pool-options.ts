import type { Duplex } from 'node:stream';
import type { Endpoint } from '../../../index.js';
import type { ServerSettings } from '../options.js';

/**
 * For mysql2's pool to one server, whose sockets come from `open`. mysql2's own limits are out of the way: leases are what
 * is counted, and a connection just lost must not block one.
 */
export function poolOptions(settings: ServerSettings, endpoint: Endpoint, open: () => Duplex): Record<string, unknown> {
  const { mysql, connectionLimit } = settings;
  const limit = 2 * connectionLimit + 2;
  return {
    // For traces. With a name, that of the Service, for TLS.
    host: endpoint.address,
    port: endpoint.port,
    ...mysql,
    // A cache of TLS sessions hangs on this object: a new pod behind an old address must never see them (U7).
    ...(typeof mysql.ssl === 'object' && { ssl: { ...mysql.ssl } }),
    stream: open,
    connectTimeout: 0,
    waitForConnections: true,
    connectionLimit: limit,
    maxIdle: limit,
    queueLimit: 0,
  };
}
