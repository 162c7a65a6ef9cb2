import { AsyncResource } from 'node:async_hooks';
import { connect, type Socket } from 'node:net';
import type { Endpoint } from '../../../index.js';

/** How sockets to the servers of one Service are opened. */
export interface DialOptions {
  /** TCP's own question whether the peer is alive. */
  readonly keepAlive: boolean;
  /** Idle time before the first of these, in ms. */
  readonly keepAliveDelayMs: number;
  /** The address to dial from. */
  readonly localAddress: string | undefined;
}

/** Connections outlive the request that brought them about: they must not hold its AsyncLocalStorage. */
const background = new AsyncResource('evenkeel.mysql2');

/**
 * A socket to one server, still connecting: to the pod's address, whatever the Service is called. TLS, if any, is put on top by
 * mysql2, with the Service's name. It does not keep the process alive; code that waits for it refs it.
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
