import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { type ConnectionOptions, checkServerIdentity, connect as connectTls } from 'node:tls';
import { type Endpoint, endpointAddress } from '../../endpoint/endpoint.js';
import { asError } from '../../errors.js';

/** How a socket to an endpoint is opened. */
export interface OpenSocketOptions {
  /** The Service's host name, which TLS sends and checks. Required with `tls`. @defaultValue none */
  readonly host?: string | undefined;
  /** Settings of Node's `tls.connect`; without them the socket is plain. @defaultValue none */
  readonly tls?: ConnectionOptions | undefined;
  /** Idle time after which TCP checks whether the peer is alive, in ms. @defaultValue 60000 */
  readonly keepAliveMs?: number | undefined;
}

/**
 * Opens a socket to an endpoint, over TLS if asked to. Rejects with the error, or with the reason of `signal`; then nothing
 * stays open. The socket keeps the process alive once it is open, not while it connects. Its user must handle `error` from then on.
 */
export function openSocket(
  endpoint: Endpoint,
  signal: AbortSignal,
  { host = endpoint.address, tls, keepAliveMs = 60_000 }: OpenSocketOptions = {},
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const { address, port } = endpoint;
    const to = { host: address, ...(port !== undefined && { port }) };
    const socket =
      tls === undefined
        ? connectTcp({ ...to, port: Number(port), noDelay: true })
        : connectTls({ ...serviceTls(host, tls), ...to });
    const settle = (error: Error | undefined): void => {
      signal.removeEventListener('abort', aborted);
      socket.off('error', failed).off('close', closed).off(opened, open);
      if (error === undefined) {
        socket.setNoDelay(true).setKeepAlive(true, keepAliveMs).ref();
        resolve(socket);
        return;
      }
      // Later errors of a socket that failed to open do not matter, and must not end the process.
      socket.on('error', () => {});
      socket.destroy();
      reject(error);
    };
    const opened = tls === undefined ? 'connect' : 'secureConnect';
    const open = (): void => settle(undefined);
    const failed = (error: Error): void => settle(error);
    const closed = (): void => settle(new Error(`${endpointAddress(endpoint)} closed while connecting`));
    const aborted = (): void => settle(asError(signal.reason));
    // The call that waits for an endpoint keeps the process alive, so the socket need not.
    socket.unref();
    socket.once(opened, open).once('error', failed).once('close', closed);
    signal.addEventListener('abort', aborted, { once: true });
  });
}

/** Completes TLS settings for a pod of the Service `host`: the certificate must name the Service, not the dialed pod. */
export function serviceTls(host: string, options: ConnectionOptions): ConnectionOptions {
  const tls: Record<string, unknown> & ConnectionOptions = { ...options };
  // A TLS setting that is present but undefined would take the place of ours.
  for (const name of Object.keys(tls)) if (tls[name] === undefined) delete tls[name];
  return {
    checkServerIdentity: (_dialled, certificate) => checkServerIdentity(tls.servername ?? host, certificate),
    ...(isIP(host) === 0 && { servername: host }),
    ...tls,
  };
}
