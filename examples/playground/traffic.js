// @ts-check
/** All clients of one protocol, each in a process of its own, under the same arrivals; and what is known of each. */
import { fork } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { Board } from './board.js';
import { epochNow } from './clients/arrivals.js';

const PREPARE_MS = 60_000;

/** Something was not there in time, which on a busy machine is nobody's fault. */
export class OutOfTime extends Error {}

// Both clients get the moment to begin, or to count anew, ahead of time, so that it is the same request for both.
const AHEAD_MS = 60;
// A machine busy with other things answers one request at a time more slowly than this over the pods' own work. Under the
// full rate it would then show queues of its own, on both sides alike, and hide what there is to see.
const OVERHEAD_MS = 7;
const MIN_RATE_RATIO = 0.1;

// Read by grpc-js when it is loaded: its DNS resolver asks the server named in the target.
const ENVIRONMENT = { ...process.env, GRPC_NODE_USE_ALTERNATIVE_RESOLVER: 'true' };

/** @param {string} path */
const inClients = (path) => fileURLToPath(new URL(`clients/${path}`, import.meta.url));
// Clients find the Service by its name, as in a cluster.
const REQUIRED = ['--require', inClients('cluster-dns.cjs')];
const REGISTER = ['--require', createRequire(import.meta.url).resolve('evenkeel/register')];

/** What a pod's environment is for `evenkeel/register`. @param {import('./clients/client.js').ClientContext} context */
const podEnvironment = ({ apiServerUrl, service, namespace }) => ({
  KUBERNETES_SERVICE_HOST: new URL(apiServerUrl).hostname,
  KUBERNETES_SERVICE_PORT: new URL(apiServerUrl).port,
  EVENKEEL_SERVICES: `${service}.${namespace}`,
  EVENKEEL_CONFIG: inClients('registered.cjs'),
  PLAYGROUND_API_SERVER: apiServerUrl,
});

/** @typedef {Awaited<ReturnType<typeof startTraffic>>} Traffic */

/**
 * Starts the clients; they send from `begin` on.
 * @param {object} options
 * @param {import('./protocols.js').Protocol} options.protocol
 * @param {import('./clients/client.js').ClientContext} options.context
 * @param {number} options.perSecond requests per second of each client
 * @param {number} options.seed
 * @param {(pod: string) => boolean} options.isWell whether a pod does what it should
 * @param {(text: string) => void} options.onEvent called with what a client did about a pod, in words
 * @param {(reason: string) => void} options.onDeath called when a client's process ended by itself
 */
export async function startTraffic(options) {
  const { protocol, context, perSecond: wanted, seed, isWell, onEvent, onDeath } = options;
  let closed = false;
  let segment = 0;
  let lateUntil = 0;
  // Without a headless Service there is nobody to ask for the pods' addresses.
  const clients = protocol.clients.filter(({ overDns }) => !overDns || context.headless !== undefined);
  const boards = new Map(clients.map(({ name }) => [name, new Board()]));
  /** @param {string} name */
  const boardOf = (name) => {
    const board = boards.get(name);
    if (board === undefined) throw new Error(`there is no client ${name}`);
    return board;
  };
  const children = clients.map(({ name, title, sameAs }) => {
    const child = fork(inClients('client.js'), [protocol.name, name, sameAs ?? name], {
      env: sameAs === undefined ? ENVIRONMENT : { ...ENVIRONMENT, ...podEnvironment(context) },
      execArgv: sameAs === undefined ? REQUIRED : [...REQUIRED, ...REGISTER],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    child.on('message', (/** @type {any} */ message) => {
      if (message.type === 'note') onEvent(message.text);
      if (message.type !== 'report') return;
      const board = boardOf(name);
      // Left out on all sides, so that they stay comparable.
      if (message.lateUntil > lateUntil) {
        lateUntil = message.lateUntil;
        tellAll({ type: 'late', until: lateUntil });
      }
      const known = board.setAside;
      board.add(message, performance.now());
      // Of a pod that is well, a busy machine made the requests fail.
      for (const pod of board.setAside)
        if (!known.includes(pod) && !isWell(pod)) onEvent(`${name} sets ${pod} aside: it fails too often`);
    });
    child.on('exit', () => {
      if (!closed) onDeath(`the client ${protocol.title}: ${title} ended by itself`);
    });
    return { name: `${protocol.title} client ${name}`, child };
  });

  const close = () => {
    closed = true;
    for (const { child } of children) child.kill('SIGKILL');
  };

  /** Which share of the rate this machine can take just now. */
  let ratio = 1;
  try {
    const meansMs = await Promise.all(children.map(({ name, child }) => prepare(name, child, context)));
    ratio = Math.min(1, (protocol.serviceTimeMs + OVERHEAD_MS) / Math.max(...meansMs));
  } catch (error) {
    close();
    throw error;
  }
  let perSecond = wanted;
  /** @param {object} message */
  const tellAll = (message) => {
    for (const { child } of children) if (child.connected) child.send(message);
  };
  const begin = () => tellAll({ type: 'begin', startAt: epochNow() + AHEAD_MS, perSecond, seed });

  return {
    protocol,
    clients,
    boardOf,
    ratio,
    /** Sends from now on, this share of the rate. @param {number} share above 0, at most 1 */
    begin(share) {
      perSecond = Math.round(wanted * Math.max(share, MIN_RATE_RATIO));
      if (perSecond < wanted) {
        const rate = `${perSecond} ${protocol.requests}/s from each ${protocol.title} client, not ${wanted}`;
        onEvent(`this machine is busy with other things: ${rate}`);
      }
      begin();
    },
    /** Requests per second of each client. */
    perSecond: () => perSecond,
    /** Forgets the errors that the views show; false if there were none. */
    clearErrors: () => [...boards.values()].map((board) => board.clearErrors()).some(Boolean),
    /** Sends nothing from now on; connections stay as they are. */
    rest: () => tellAll({ type: 'rest' }),
    /** Sends again. */
    resume: begin,
    /** Requests due from a moment ahead on are counted apart; resolves with that count's number once the moment has come. */
    async nextSegment() {
      segment += 1;
      tellAll({ type: 'mark', segment, from: epochNow() + AHEAD_MS });
      await new Promise((resolve) => setTimeout(resolve, AHEAD_MS));
      return segment;
    },
    close,
  };
}

/**
 * @param {string} name
 * @param {import('node:child_process').ChildProcess} child
 * @param {import('./clients/client.js').ClientContext} context
 * @returns {Promise<number>} what one request takes, in ms
 */
function prepare(name, child, context) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new OutOfTime(`the ${name} was not ready in ${PREPARE_MS / 1000} s`)),
      PREPARE_MS,
    );
    child.on('message', (/** @type {any} */ message) => {
      if (message.type === 'prepared') resolve(message.meanMs);
      if (message.type === 'failed') reject(new Error(`the ${name} could not start: ${message.message}`));
      if (message.type === 'prepared' || message.type === 'failed') clearTimeout(timer);
    });
    child.once('exit', () => {
      clearTimeout(timer);
      reject(new Error(`the ${name} ended before it was ready`));
    });
    child.send({ type: 'prepare', context });
  });
}
