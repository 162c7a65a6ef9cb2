import { isIP } from 'node:net';
import { connect } from 'node:tls';
import { type Endpoint, endpointAddress } from '../endpoint/endpoint.js';
import { systemClock } from '../runtime/clock.js';
import type { Http2Facts } from './report.js';

const TIMEOUT_MS = 2_000;

/**
 * Finds out whether a pod chooses HTTP/2 where it is offered, and whether the `fetch` of this Node offers it, by a TLS handshake. No
 * request is sent, so the pod's certificate is not checked. Undefined if the pod does not choose HTTP/2, or does not answer. Never rejects.
 */
export async function probeHttp2(endpoint: Endpoint, host: string): Promise<Http2Facts | undefined> {
  if (!(await choosesHttp2(endpoint, host))) return undefined;
  // undici 8 offers HTTP/2 by itself; Node 26 is the first Node that contains it.
  const major = Number.parseInt(process.versions.undici ?? '0', 10);
  return { endpoint: endpointAddress(endpoint), node: process.versions.node, isOffered: major >= 8 };
}

function choosesHttp2({ address, port }: Endpoint, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({
      host: address,
      port,
      ...(isIP(host) === 0 && { servername: host }),
      ALPNProtocols: ['h2', 'http/1.1'],
      rejectUnauthorized: false,
    });
    const done = (answer: boolean): void => {
      timer.cancel();
      socket.destroy();
      resolve(answer);
    };
    const timer = systemClock.timer(() => done(false), TIMEOUT_MS);
    timer.ref();
    socket.on('secureConnect', () => done(socket.alpnProtocol === 'h2'));
    socket.on('error', () => done(false));
  });
}
