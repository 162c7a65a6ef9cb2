import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { type ConnectionOptions, checkServerIdentity, connect as connectTls } from 'node:tls';
import { type Endpoint, endpointAddress } from '../../endpoint/endpoint.js';
import { asError } from '../../errors.js';
import { ownProperties } from '../../runtime/own-properties.js';

/** How `openSocket` opens and configures a socket: plain or with TLS, and its TCP keep-alive. */
export interface OpenSocketOptions {
  /**
   * The Service's host name, which TLS sends (SNI) and which the certificate must name. Required with `tls`. @defaultValue the endpoint's
   * address
   */
  readonly host?: string | undefined;
  /** Options for Node's `tls.connect`; without them the socket is plain TCP. @defaultValue none */
  readonly tls?: ConnectionOptions | undefined;
  /** How long the socket must be idle before TCP checks whether its peer is alive, in ms. @defaultValue 60000 */
  readonly keepAliveMs?: number | undefined;
}

/**
 * Opens a socket to an endpoint, with TLS if `tls` is set. Rejects with the socket's error or with the reason of `signal`, and leaves
 * nothing open then. The socket keeps the process alive once it is open, but not while it connects. The caller must handle the open
 * socket's `error` events.
 */
export function openSocket(endpoint: Endpoint, signal: AbortSignal, options: OpenSocketOptions = {}): Promise<Socket> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const { host = endpoint.address, tls, keepAliveMs = 60_000 } = ownProperties(options);
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
      // Errors that follow after the socket failed to open no longer matter, but without a listener they would end the process.
      socket.on('error', () => {});
      socket.destroy();
      reject(error);
    };
    const opened = tls === undefined ? 'connect' : 'secureConnect';
    const open = (): void => settle(undefined);
    const failed = (error: Error): void => settle(error);
    const closed = (): void => settle(new Error(`${endpointAddress(endpoint)} closed while connecting`));
    const aborted = (): void => settle(asError(signal.reason));
    // The call that waits for an endpoint keeps the process alive, so the connecting socket need not.
    socket.unref();
    socket.once(opened, open).once('error', failed).once('close', closed);
    signal.addEventListener('abort', aborted, { once: true });
  });
}

/** Completes TLS options for a pod of the Service `host`: the certificate must name the Service, not the pod's address. */
export function serviceTls(host: string, options: ConnectionOptions): ConnectionOptions {
  const tls: Record<string, unknown> & ConnectionOptions = ownProperties({ ...options });
  // Below, the caller's options override evenkeel's. A property that is present but undefined must not override anything.
  for (const name of Object.keys(tls)) if (tls[name] === undefined) delete tls[name];
  return {
    checkServerIdentity: (_dialled, certificate) => checkServerIdentity(tls.servername ?? host, certificate),
    ...(isIP(host) === 0 && { servername: host }),
    ...tls,
  };
}
