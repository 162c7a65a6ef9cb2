// @ts-check
/**
 * All it takes to balance a protocol evenkeel has no door for: a transport that opens one connection to one endpoint.
 * This one speaks lines: one request line, one answer line, in order.
 */
import { connect } from 'node:net';
import { createInterface } from 'node:readline';

/** What callers get: asks one line, promises the answer. */
export class LineClient {
  /** @type {{ resolve: (answer: string) => void, reject: (error: Error) => void }[]} */
  #waiting = [];
  #socket;

  /** @param {import('node:net').Socket} socket */
  constructor(socket) {
    this.#socket = socket;
    const lines = createInterface({ input: socket });
    lines.on('line', (line) => this.#waiting.shift()?.resolve(line));
    // readline emits the errors of its input once more, on itself: without a listener they would end the process.
    lines.on('error', () => {});
    socket.on('close', () => {
      for (const { reject } of this.#waiting.splice(0)) reject(lost());
    });
  }

  /** @param {string} line */
  ask(line) {
    return /** @type {Promise<string>} */ (
      new Promise((resolve, reject) => {
        // Nothing will be heard of a line that is written now.
        if (this.#socket.destroyed) {
          reject(lost());
          return;
        }
        this.#waiting.push({ resolve, reject });
        this.#socket.write(`${line}\n`);
      })
    );
  }
}

function lost() {
  return Object.assign(new Error('the connection was lost'), { code: 'ECONNRESET' });
}

/** @type {import('evenkeel').Transport<LineClient>} */
export const lineTransport = {
  connect(endpoint, signal) {
    return new Promise((resolve, reject) => {
      const socket = connect({ host: endpoint.address, port: endpoint.port, signal });
      socket.once('error', reject);
      socket.once('connect', () => {
        /** @type {Error | undefined} */
        let failure;
        socket.off('error', reject);
        socket.on('error', (error) => {
          failure = error;
        });
        const closed = new Promise((settle) => socket.once('close', () => settle(failure)));
        resolve({
          handle: new LineClient(socket),
          // How many lines may be under way at once on this connection.
          capacity: 100,
          closed,
          async close(limit) {
            if (limit?.aborted) socket.destroy();
            else socket.end();
            limit?.addEventListener('abort', () => socket.destroy(), { once: true });
            await closed;
          },
        });
      });
    });
  },
};
