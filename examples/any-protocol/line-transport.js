// @ts-check
/**
 * All it takes to balance a protocol that evenkeel has no entry point for: a transport that opens one connection to one endpoint.
 * This one speaks lines: one request line, one answer line, in order.
 */
import { createInterface } from 'node:readline';
import { openSocket, socketConnection } from 'evenkeel/adapter';

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
  async connect(endpoint, signal) {
    const socket = await openSocket(endpoint, signal);
    // At most 100 lines may be under way at once on one connection.
    return socketConnection(socket, { handle: new LineClient(socket), capacity: 100 });
  },
};
