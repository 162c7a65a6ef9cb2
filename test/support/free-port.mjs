/**
 * Ports for servers that may go away and come back on the same one, or where nobody is to listen. Not ones the kernel
 * gives out: meanwhile it could give them to somebody else, or to a client that dials such a port for its own end, which
 * is then connected to itself.
 */
import { createServer } from 'node:net';

const FIRST = 20_000;
/** Workers of vitest run at the same time, each with ports of its own. */
const PER_WORKER = 1_500;
const WORKERS = 8;

const worker = Number(process.env.VITEST_POOL_ID ?? 0) % WORKERS;
/** Somewhere in its ports, since a program that a worker starts has the same ones. */
let next = Math.floor(Math.random() * PER_WORKER);

/**
 * A port that is free on all these addresses, and that nobody here is given for the next 1,500 times.
 * @param {readonly string[]} [addresses]
 */
export async function freePort(addresses = ['127.0.0.1']) {
  for (let attempt = 0; attempt < PER_WORKER; attempt++) {
    const port = FIRST + worker * PER_WORKER + (next++ % PER_WORKER);
    const free = await Promise.all(addresses.map((address) => canListen(address, port)));
    if (free.every(Boolean)) return port;
  }
  throw new Error(`no free port of ${PER_WORKER} on ${addresses.join(', ')}`);
}

/** @param {string} address @param {number} port @returns {Promise<boolean>} */
function canListen(address, port) {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, address, () => server.close(() => resolve(true)));
  });
}
