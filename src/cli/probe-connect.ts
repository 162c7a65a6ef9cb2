import { connect, isIP } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { type Endpoint, endpointAddress, withOtherFirst } from '../endpoint/endpoint.js';
import { systemClock } from '../runtime/clock.js';
import type { ConnectFacts } from './report.js';

/** The largest number of endpoints that are tried for a connection, which is about as many as a person reads. */
const MAX_ENDPOINTS = 10;
const TIMEOUT_MS = 2_000;

/**
 * Opens a connection to each address of the first endpoints, and closes it again. At most ten are tried. No request is sent. Never rejects.
 *
 * @param tlsHost The host of an https URL, for which a TLS handshake is tried, too. Certificates are not checked.
 */
export async function probeConnections(
  endpoints: readonly Endpoint[],
  tlsHost: string | undefined,
): Promise<readonly ConnectFacts[]> {
  const distinct = new Map(
    endpoints.flatMap((each) => [each, withOtherFirst(each)]).map((endpoint) => [endpointAddress(endpoint), endpoint]),
  );
  return Promise.all([...distinct].slice(0, MAX_ENDPOINTS).map(([text, endpoint]) => probe(text, endpoint, tlsHost)));
}

function probe(text: string, { address: host, port }: Endpoint, tlsHost: string | undefined): Promise<ConnectFacts> {
  const startedMs = systemClock.now();
  const elapsedMs = (): number => Math.round(systemClock.now() - startedMs);
  return new Promise((resolve) => {
    const socket = tlsHost === undefined ? connect({ host, port }) : handshake(host, port, tlsHost);
    /** How long the connection took; undefined until it is open. */
    let tookMs: number | undefined;
    const done = (facts: Pick<ConnectFacts, 'error' | 'tls'>): void => {
      timer.cancel();
      socket.destroy();
      resolve({ endpoint: text, tookMs: tookMs ?? elapsedMs(), ...facts });
    };
    const timer = systemClock.timer(() => failed(`no answer within ${TIMEOUT_MS} ms`), TIMEOUT_MS);
    const failed = (why: string): void => done(tookMs === undefined ? { error: why } : { tls: { refusal: why } });
    timer.ref();
    socket.on('connect', () => {
      tookMs = elapsedMs();
      if (tlsHost === undefined) done({});
    });
    socket.on('secureConnect', () => {
      const { alpnProtocol } = socket as TLSSocket;
      done({ tls: alpnProtocol ? { protocol: alpnProtocol } : {} });
    });
    socket.on('error', ({ code, message }: NodeJS.ErrnoException) => {
      // A server that speaks TLS may still refuse a handshake, for example because it wants a client certificate.
      if (ANOTHER_PROTOCOL.test(message)) failed('it answers in another protocol');
      else if (tookMs !== undefined && /^ERR_SSL|^EPROTO/.test(code ?? '')) done({ tls: {} });
      else failed(code ?? message);
    });
  });
}

/** What OpenSSL says about an answer that is no TLS. */
const ANOTHER_PROTOCOL =
  /wrong version number|packet length too long|record layer failure|unexpected message|http request/i;

function handshake(host: string, port: number, tlsHost: string): TLSSocket {
  return connectTls({
    host,
    port,
    ...(isIP(tlsHost) === 0 && { servername: tlsHost }),
    ALPNProtocols: ['h2', 'http/1.1'],
    rejectUnauthorized: false,
  });
}
