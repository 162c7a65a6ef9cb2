import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { type ConnectionOptions, checkServerIdentity, connect as connectTls } from 'node:tls';
import { type Endpoint, endpointAddress } from '../../endpoint/endpoint.js';
import { asError } from '../../errors.js';

/** How a socket to an endpoint is opened. */
export interface OpenSocketOptions {
  /** The Service's name: what TLS sends and checks, regardless of the pod. Needed with `tls`. @defaultValue none */
  readonly host?: string | undefined;
  /** Settings of Node's `tls.connect`; without them the socket is plain. @defaultValue none */
  readonly tls?: ConnectionOptions | undefined;
  /** After how long without traffic the system asks whether the other side is there, in ms. @defaultValue 60000 */
  readonly keepAliveMs?: number | undefined;
}

/**
 * Opens a socket to an endpoint, over TLS if asked to. Rejects with what went wrong, or with the reason of `signal`; after that
 * nothing is open. The process stays alive for the socket once it is open, not while it connects. The user of the socket must
 * listen for `error` afterwards.
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
        : connectTls({
            // The certificate must name the Service, not the pod that is dialled.
            checkServerIdentity: (_dialled, certificate) => checkServerIdentity(tls.servername ?? host, certificate),
            ...(isIP(host) === 0 && { servername: host }),
            ...tls,
            ...to,
          });
    const settle = (error: Error | undefined): void => {
      signal.removeEventListener('abort', aborted);
      socket.off('error', failed).off('close', closed).off(opened, open);
      if (error === undefined) {
        socket.setNoDelay(true).setKeepAlive(true, keepAliveMs).ref();
        resolve(socket);
        return;
      }
      // Whatever it says after this is of no interest, and must not end the process.
      socket.on('error', () => {});
      socket.destroy();
      reject(error);
    };
    const opened = tls === undefined ? 'connect' : 'secureConnect';
    const open = (): void => settle(undefined);
    const failed = (error: Error): void => settle(error);
    const closed = (): void => settle(new Error(`${endpointAddress(endpoint)} closed while connecting`));
    const aborted = (): void => settle(asError(signal.reason));
    // Nobody waits for the socket itself: the call that waits for an endpoint keeps the process alive.
    socket.unref();
    socket.once(opened, open).once('error', failed).once('close', closed);
    signal.addEventListener('abort', aborted, { once: true });
  });
}
