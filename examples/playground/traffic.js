// @ts-check
/** Both clients, each in a process of its own, under the same arrivals; and what is known of each. */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { epochNow } from './arrivals.js';
import { Board } from './board.js';

/** The clients, in the order they are shown. */
export const CLIENTS = /** @type {const} */ (['ordinary', 'evenkeel']);
/** @typedef {(typeof CLIENTS)[number]} ClientName */

const PREPARE_MS = 15_000;
// Both clients get the moment to begin, or to count anew, ahead of time, so that it is the same request for both.
const AHEAD_MS = 60;

/**
 * @param {object} options
 * @param {import('./client.js').ClientContext} options.context
 * @param {number} options.perSecond requests per second of each client
 * @param {number} options.seed
 * @param {(text: string) => void} options.onEvent called with what a client did about a pod, in words
 * @param {(reason: string) => void} options.onDeath called when a client's process ended by itself
 */
export async function startTraffic({ context, perSecond, seed, onEvent, onDeath }) {
  let closed = false;
  let segment = 0;
  const boards = { ordinary: new Board(), evenkeel: new Board() };
  const children = CLIENTS.map((name) => {
    const child = fork(fileURLToPath(new URL('client.js', import.meta.url)), [name], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    child.on('message', (/** @type {any} */ message) => {
      if (message.type !== 'report') return;
      const known = boards[name].setAside;
      boards[name].add(message, performance.now());
      const { setAside } = boards[name];
      for (const pod of setAside) if (!known.includes(pod)) onEvent(`${name} sets ${pod} aside: it fails too often`);
      for (const pod of known) if (!setAside.includes(pod)) onEvent(`${name} no longer sets ${pod} aside`);
    });
    child.on('exit', () => {
      if (!closed) onDeath(`the ${name} client ended by itself`);
    });
    return { name, child };
  });

  const close = () => {
    closed = true;
    for (const { child } of children) child.kill('SIGKILL');
  };

  try {
    await Promise.all(children.map(({ name, child }) => prepare(name, child, context)));
  } catch (error) {
    close();
    throw error;
  }
  const startAt = epochNow() + AHEAD_MS;
  for (const { child } of children) child.send({ type: 'begin', startAt, perSecond, seed });

  return {
    boards,
    /** Requests due from a moment ahead on are counted apart; resolves with that count's number once the moment has come. */
    async nextSegment() {
      segment += 1;
      const mark = { type: 'mark', segment, from: epochNow() + AHEAD_MS };
      for (const { child } of children) if (child.connected) child.send(mark);
      await new Promise((resolve) => setTimeout(resolve, AHEAD_MS));
      return segment;
    },
    close,
  };
}

/**
 * @param {ClientName} name
 * @param {import('node:child_process').ChildProcess} child
 * @param {import('./client.js').ClientContext} context
 * @returns {Promise<void>}
 */
function prepare(name, child, context) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new Error(`the ${name} client was not ready in ${PREPARE_MS / 1000} s`)),
      PREPARE_MS,
    );
    child.once('message', (/** @type {any} */ message) => {
      clearTimeout(timer);
      if (message.type === 'prepared') resolve();
      else reject(new Error(`the ${name} client could not start: ${message.message}`));
    });
    child.once('exit', () => {
      clearTimeout(timer);
      reject(new Error(`the ${name} client ended before it was ready`));
    });
    child.send({ type: 'prepare', context });
  });
}
