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
// A machine busy with other things answers one request at a time more slowly than this over the pods' own work. Under the
// full rate it would then show queues of its own, on both sides alike, and hide what there is to see.
const OVERHEAD_MS = 7;
const MIN_RATE_RATIO = 0.1;

/**
 * @param {object} options
 * @param {import('./client.js').ClientContext} options.context
 * @param {number} options.perSecond requests per second of each client
 * @param {number} options.serviceTimeMs the mean work of a pod on one request
 * @param {boolean} options.lowerRate whether to send fewer on a machine that is busy with other things
 * @param {number} options.seed
 * @param {(text: string) => void} options.onEvent called with what a client did about a pod, in words
 * @param {(reason: string) => void} options.onDeath called when a client's process ended by itself
 */
export async function startTraffic({ context, perSecond: wanted, serviceTimeMs, lowerRate, seed, onEvent, onDeath }) {
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

  let perSecond = wanted;
  try {
    const meansMs = await Promise.all(children.map(({ name, child }) => prepare(name, child, context)));
    const ratio = (serviceTimeMs + OVERHEAD_MS) / Math.max(...meansMs);
    if (lowerRate && ratio < 1) {
      perSecond = Math.round(wanted * Math.max(ratio, MIN_RATE_RATIO));
      onEvent(`this machine is busy with other things: ${perSecond} requests/s from each client, not ${wanted}`);
    }
  } catch (error) {
    close();
    throw error;
  }
  const startAt = epochNow() + AHEAD_MS;
  for (const { child } of children) child.send({ type: 'begin', startAt, perSecond, seed });

  return {
    boards,
    /** Requests per second of each client. */
    perSecond,
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
 * @returns {Promise<number>} what one request takes, in ms
 */
function prepare(name, child, context) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new Error(`the ${name} client was not ready in ${PREPARE_MS / 1000} s`)),
      PREPARE_MS,
    );
    child.once('message', (/** @type {any} */ message) => {
      clearTimeout(timer);
      if (message.type === 'prepared') resolve(message.meanMs);
      else reject(new Error(`the ${name} client could not start: ${message.message}`));
    });
    child.once('exit', () => {
      clearTimeout(timer);
      reject(new Error(`the ${name} client ended before it was ready`));
    });
    child.send({ type: 'prepare', context });
  });
}
