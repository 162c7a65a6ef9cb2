import { connect } from 'node:net';
import { type Endpoint, endpointAddress, withOtherFirst } from '../endpoint/endpoint.js';
import { systemClock } from '../runtime/clock.js';
import type { ConnectFacts } from './report.js';

/** The largest number of endpoints that are tried for a connection, which is about as many as a person reads. */
const MAX_ENDPOINTS = 10;
const TIMEOUT_MS = 2_000;

/** Opens a TCP connection to each address of the first endpoints, and closes it again. At most ten are tried. Never rejects. */
export async function probeConnections(endpoints: readonly Endpoint[]): Promise<readonly ConnectFacts[]> {
  const distinct = new Map(
    endpoints.flatMap((each) => [each, withOtherFirst(each)]).map((endpoint) => [endpointAddress(endpoint), endpoint]),
  );
  return Promise.all([...distinct].slice(0, MAX_ENDPOINTS).map(([text, endpoint]) => probe(text, endpoint)));
}

function probe(text: string, { address, port }: Endpoint): Promise<ConnectFacts> {
  const startedMs = systemClock.now();
  return new Promise((resolve) => {
    const socket = connect({ host: address, port });
    const done = (error?: string): void => {
      timer.cancel();
      socket.destroy();
      const tookMs = Math.round(systemClock.now() - startedMs);
      resolve({ endpoint: text, tookMs, ...(error !== undefined && { error }) });
    };
    const timer = systemClock.timer(() => done(`no answer within ${TIMEOUT_MS} ms`), TIMEOUT_MS);
    timer.ref();
    socket.on('connect', () => done());
    socket.on('error', (error: NodeJS.ErrnoException) => done(error.code ?? error.message));
  });
}
