import { AsyncResource } from 'node:async_hooks';
import { connect, type Socket } from 'node:net';
import type { Endpoint } from '../../../index.js';

/** How sockets to the servers of one Service are opened. */
export interface DialOptions {
  /** Whether TCP probes an idle peer. */
  readonly keepAlive: boolean;
  /** Idle time before the first probe, in ms. */
  readonly keepAliveDelayMs: number;
  /** The address to dial from. */
  readonly localAddress: string | undefined;
}

/** Connections outlive the call they were opened for: they must not keep its AsyncLocalStorage. */
const background = new AsyncResource('evenkeel.mysql2');

/**
 * Opens a socket to the pod's address, whatever the Service is called. mysql2 adds TLS, with the Service's name. The socket does not
 * keep the process alive; code that waits for it calls `ref`.
 */
export function dial(endpoint: Endpoint, options: DialOptions): Socket {
  const { keepAlive, keepAliveDelayMs, localAddress } = options;
  return background.runInAsyncScope(() =>
    connect({
      host: endpoint.address,
      port: endpoint.port,
      noDelay: true,
      keepAlive,
      keepAliveInitialDelay: keepAliveDelayMs,
      ...(localAddress !== undefined && { localAddress }),
    }).unref(),
  );
}
