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

  /**
   * It is told when calls begin and end: while none runs, an open connection does not keep the process alive.
   * @type {import('evenkeel/adapter').OpenConnection<LineClient>}
   */
  connection;

  /** @param {import('node:net').Socket} socket */
  constructor(socket) {
    this.#socket = socket;
    // At most 100 lines at once on one connection.
    this.connection = socketConnection(socket, { handle: this, capacity: 100 });
    socket.unref();
    const lines = createInterface({ input: socket });
    lines.on('line', (line) => this.#waiting.shift()?.resolve(line));
    // readline re-emits the errors of its input on itself; without a listener they would end the process.
    lines.on('error', () => {});
    socket.on('close', () => {
      for (const { reject } of this.#waiting.splice(0)) reject(lost());
    });
  }

  /** @template T @param {(value: T) => void} settle */
  #ending(settle) {
    return (/** @type {T} */ value) => {
      this.connection.callEnds();
      settle(value);
    };
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
        this.connection.callBegins();
        this.#waiting.push({ resolve: this.#ending(resolve), reject: this.#ending(reject) });
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
    return new LineClient(await openSocket(endpoint, signal)).connection;
  },
};
