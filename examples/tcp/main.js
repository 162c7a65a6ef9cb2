// @ts-check
/** What an application writes: a connector, and a client that reconnects. `node examples/tcp/demo.js` runs it on one machine. */
import { createConnector } from 'evenkeel/tcp';

/** @param {import('evenkeel/tcp').ConnectorOptions} [options] none in a pod */
export function createTicker(options) {
  // When a pod leaves, its connections are told one by one.
  return createConnector('ticker.shop:8080', { onLeaving: (_leaving, socket) => socket.end(), ...options });
}

/** Connects again whenever a connection ends, like most libraries. @param {ReturnType<typeof createTicker>} ticker */
export async function* connections(ticker) {
  for (;;) {
    const socket = await ticker.connect();
    socket.on('error', () => {}).resume();
    yield new Promise((resolve) => socket.once('close', resolve));
  }
}
