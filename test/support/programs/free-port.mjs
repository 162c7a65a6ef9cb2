/**
 * Ports for servers that may go away and come back on the same port, or where nothing should listen. They are outside the kernel's
 * ephemeral range: otherwise the kernel could give such a port to another process in the meantime, or to a client that connects to it
 * and then is connected to itself.
 */
import { createHash } from 'node:crypto';
import { createServer } from 'node:net';

const FIRST = 8_000;
/** Vitest's workers run in parallel, each with its own ports. */
const PER_WORKER = 750;
const WORKERS = 8;
/** So that two checkouts on one machine seldom meet. */
const CHECKOUTS = 4;

const path = new URL('../../..', import.meta.url).pathname;
const checkout = createHash('sha256').update(path).digest().readUInt32BE() % CHECKOUTS;
const worker = Number(process.env.VITEST_POOL_ID ?? 0) % WORKERS;
/** A random start, because a program started by a worker has the same range. */
let next = Math.floor(Math.random() * PER_WORKER);

/**
 * A port that is free on all these addresses, and that this process does not hand out again within the next 750 times.
 * @param {readonly string[]} [addresses]
 */
export async function freePort(addresses = ['127.0.0.1']) {
  for (let attempt = 0; attempt < PER_WORKER; attempt++) {
    const port = FIRST + (checkout * WORKERS + worker) * PER_WORKER + (next++ % PER_WORKER);
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
