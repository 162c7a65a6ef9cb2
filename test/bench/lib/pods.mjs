/** Pods to send requests to, what can happen to them, and a stand-in for kube-proxy in front of them. */
import { connect as connectSocket, createServer } from 'node:net';
import { buildConnector } from 'undici';
import { startChild } from './children.mjs';

/** From a pod's listening to the first probe that finds it ready. */
const READINESS_MS = 200;
/** How long a pod serves on after it was told to end, and when it is killed if it is still there. */
const GRACE_MS = 1_000;
const KILL_AFTER_MS = 5_000;

/** @typedef {{ readonly address: string, readonly port: number }} Address */
/** @typedef {{ readonly name: string, readonly state: 'starting' | 'ready' | 'terminating' } & Address} PodInfo */

/**
 * A Service's pods, each a process of its own. They share a port and have an address each, as pods do; where only 127.0.0.1
 * can be bound they have a port each.
 */
export class Pods {
  /** Whether each pod has an address of its own. */
  haveAddresses;
  #port = 0;
  #started = 0;
  #asked = 0;
  /** @type {Map<string, { info: PodInfo, child: import('./children.mjs').Child }>} */
  #pods = new Map();
  /** @type {Set<(pods: readonly PodInfo[]) => void>} */
  #listeners = new Set();
  #connector = buildConnector({});

  /** @param {boolean} haveAddresses */
  constructor(haveAddresses) {
    this.haveAddresses = haveAddresses;
  }

  /** @param {number} count */
  static async start(count) {
    const pods = new Pods(await canBind('127.0.0.2'));
    for (let index = 0; index < count; index++) await pods.#startPod('ready');
    return pods;
  }

  /** All pods there are. @returns {readonly PodInfo[]} */
  get all() {
    return [...this.#pods.values()].map(({ info }) => info);
  }

  /** Where the Service's pods are that are ready. @returns {readonly PodInfo[]} */
  get ready() {
    return this.all.filter(({ state }) => state === 'ready');
  }

  /** Tells of every change from now on. Returns what ends that. @param {(pods: readonly PodInfo[]) => void} listener */
  follow(listener) {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** What kube-proxy does, at no cost to anybody: a pod at random for a connection, for good. */
  any() {
    const { ready } = this;
    return /** @type {PodInfo} */ (ready[Math.floor(Math.random() * ready.length)]);
  }

  /** The same as a connector of undici. @type {import('undici').buildConnector.connector} */
  asKubeProxy = (options, callback) => {
    const { address, port } = this.any();
    this.#connector({ ...options, hostname: address, port: String(port) }, callback);
  };

  /** The same as `createConnection` of an `http.Agent`. */
  connectAny = () => {
    const { address, port } = this.any();
    return connectSocket({ host: address, port, noDelay: true });
  };

  /** Requests each pod has had, by name. @returns {Promise<ReadonlyMap<string, number>>} */
  async counts() {
    const alive = [...this.#pods].filter(([, { child }]) => child.process.connected);
    const entries = alive.map(async ([name, { child }]) => {
      const count = ++this.#asked;
      const served = await new Promise((resolve) => {
        const listener = (/** @type {{ count?: number, served: number }} */ message) => {
          if (message.count !== count) return;
          child.process.off('message', listener);
          resolve(message.served);
        };
        child.process.on('message', listener);
        child.process.send({ count });
      });
      return /** @type {const} */ ([name, Number(served)]);
    });
    return new Map(await Promise.all(entries));
  }

  /** @param {string} name @param {number} delayMs */
  delay(name, delayMs) {
    this.#pods.get(name)?.child.process.send({ delayMs });
  }

  /** kill -9. Nobody is told. @param {string} name */
  kill(name) {
    this.#pods.get(name)?.child.process.kill('SIGKILL');
  }

  /** Puts another pod in the place of one that was killed. @param {string} name */
  async replace(name) {
    this.#pods.delete(name);
    await this.#startPod('ready');
    this.#changed();
  }

  /** Replaces every pod, one more than wanted at a time; the next step follows when the new one is ready. */
  async roll() {
    const leaving = [];
    for (const old of this.ready) {
      const fresh = await this.#startPod('starting');
      this.#changed();
      await pause(READINESS_MS);
      this.#set(fresh, 'ready');
      leaving.push(this.#end(old.name));
    }
    await Promise.all(leaving);
  }

  stop() {
    for (const { child } of this.#pods.values()) child.stop();
  }

  /** @param {PodInfo['state']} state @returns {Promise<string>} its name */
  async #startPod(state) {
    const number = this.#started++;
    // Never an address of a pod before: nobody shall find the new pod by knowing the old.
    const address = this.haveAddresses ? `127.0.${1 + Math.floor(number / 250)}.${2 + (number % 250)}` : '127.0.0.1';
    const child = await startChild('pod.mjs', [address, String(this.haveAddresses ? this.#port : 0)]);
    if (number === 0) this.#port = child.port;
    const name = `pod-${number}`;
    this.#pods.set(name, { info: { name, address, port: child.port, state }, child });
    return name;
  }

  /** @param {string} name */
  async #end(name) {
    const { child } = /** @type {{ child: import('./children.mjs').Child }} */ (this.#pods.get(name));
    const gone = new Promise((resolve) => child.process.once('exit', resolve));
    child.process.send({ end: GRACE_MS });
    this.#set(name, 'terminating');
    const timer = setTimeout(() => child.process.kill('SIGKILL'), KILL_AFTER_MS);
    await gone;
    clearTimeout(timer);
    this.#pods.delete(name);
    this.#changed();
  }

  /** @param {string} name @param {PodInfo['state']} state */
  #set(name, state) {
    const pod = this.#pods.get(name);
    if (pod === undefined) return;
    pod.info = { ...pod.info, state };
    this.#changed();
  }

  #changed() {
    for (const listener of this.#listeners) listener(this.all);
  }
}

/** @param {number} ms */
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** @param {string} host @returns {Promise<boolean>} */
function canBind(host) {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(0, host, () => server.close(() => resolve(true)));
  });
}
