// @ts-check
/** What both WebSocket clients share: WebSockets that are reopened when they are closed, and the message. */

/** WebSockets of each client. */
const SOCKETS = 30;
/** The code a client sees where the other side ended without a close frame. */
export const NO_FRAME = 1006;
/** The error kind of a message lost with its WebSocket. */
export const CUT = `closed with ${NO_FRAME}`;
// After a failure the next attempt waits for up to this long, as a plain reconnect does.
const RECONNECT_MS = 200;

/** @typedef {import('./client.js').Answer} Answer */
/** @typedef {(answer: Answer) => void} Answered */

/** One WebSocket and the messages it has not answered. */
class Line {
  #socket;
  /** @type {Map<number, Answered>} */
  #asked = new Map();
  #lastId = 0;
  #isLeaving = false;

  /** @param {import('ws').WebSocket} socket */
  constructor(socket) {
    this.#socket = socket;
    socket.on('message', (data) => {
      const { id, ...answer } = JSON.parse(String(data));
      this.#asked.get(id)?.(answer);
    });
  }

  /** Sends a message; the function returned forgets it. @param {Answered} answered */
  send(answered) {
    this.#lastId += 1;
    const id = this.#lastId;
    this.#asked.set(id, answered);
    this.#socket.send(JSON.stringify({ id }));
    return () => {
      this.#asked.delete(id);
      if (this.#isLeaving && this.#asked.size === 0) this.#socket.close(1000, 'moving');
    };
  }

  /** Closes it when everything is answered; nothing may be sent any more. */
  leave() {
    this.#isLeaving = true;
    if (this.#asked.size === 0) this.#socket.close(1000, 'moving');
  }

  /** It is closed. @param {number} code */
  lose(code) {
    for (const answered of [...this.#asked.values()]) answered({ error: `closed with ${code}` });
  }
}

/**
 * Keeps WebSockets open and sends messages over them in turn. Resolves when all are open.
 * @param {() => import('ws').WebSocket} open begins to open one
 * @param {(code: number) => void} closed called when one that was open is closed
 * @returns {Promise<import('./client.js').Client>}
 */
export async function keepOpen(open, closed) {
  /** Those that take messages. @type {Line[]} */
  let lines = [];
  /** Messages that wait for one. @type {((line: Line) => void)[]} */
  const waiting = [];
  let turn = 0;

  /** @param {() => void} opened called when it is open for the first time */
  function connect(opened) {
    const socket = open();
    const line = new Line(socket);
    let wasOpen = false;
    const retire = () => {
      lines = lines.filter((other) => other !== line);
    };
    socket.on('error', () => {}); // `close` follows
    socket.on('open', () => {
      wasOpen = true;
      lines.push(line);
      for (const take of waiting.splice(0)) take(line);
      opened();
    });
    // Stock ws has no such event: nobody tells it.
    /** @type {import('node:events').EventEmitter} */ (socket).on('leaving', () => {
      retire();
      line.leave();
    });
    socket.on('close', (code) => {
      retire();
      line.lose(code);
      if (wasOpen) closed(code);
      setTimeout(() => connect(wasOpen ? () => {} : opened), code === NO_FRAME ? Math.random() * RECONNECT_MS : 0);
    });
  }

  await Promise.all(Array.from({ length: SOCKETS }, () => new Promise((resolve) => connect(() => resolve(undefined)))));
  return {
    ask: ({ deadlineMs }) =>
      new Promise((resolve) => {
        let forget = () => {};
        /** @param {Answer} answer */
        const end = (answer) => {
          clearTimeout(timer);
          forget();
          resolve(answer);
        };
        /** @param {Line} line */
        const take = (line) => {
          forget = line.send(end);
        };
        const timer = setTimeout(() => end({ error: `no answer in ${deadlineMs / 1_000} s` }), deadlineMs);
        turn += 1;
        const line = lines[turn % lines.length];
        if (line !== undefined) return take(line);
        waiting.push(take);
        forget = () => waiting.splice(waiting.indexOf(take), 1);
      }),
  };
}
