// @ts-check
/**
 * All you need to balance a protocol without an entry point in evenkeel: a transport that opens one connection to one endpoint. This
 * one speaks lines: one request line, one response line, in order.
 */
import { createInterface } from 'node:readline';
import { openSocket, socketConnection } from 'evenkeel/adapter';

/** What callers get: sends a line and returns a promise of the answer. */
export class LineClient {
  /** @type {{ resolve: (answer: string) => void, reject: (error: Error) => void }[]} */
  #waiting = [];
  #socket;

  /** @param {import('node:net').Socket} socket */
  constructor(socket) {
    this.#socket = socket;
    const lines = createInterface({ input: socket });
    lines.on('line', (line) => this.#waiting.shift()?.resolve(line));
    // readline re-emits the errors of its input on itself; without a listener they would end the process.
    lines.on('error', () => {});
    socket.on('close', () => {
      for (const { reject } of this.#waiting.splice(0)) reject(lost());
    });
  }

  /** @param {string} line */
  ask(line) {
    return /** @type {Promise<string>} */ (
      new Promise((resolve, reject) => {
        // A line written now would never get an answer.
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
    // At most 100 lines at once on one connection.
    return socketConnection(socket, { handle: new LineClient(socket), capacity: 100 });
  },
};
