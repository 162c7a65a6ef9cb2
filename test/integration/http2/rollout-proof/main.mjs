/**
 * Pods of HTTP/2 in the clear, of Connect and of gRPC, each of which allows 100 streams on a connection, under load from one client:
 * replaced one by one, replaced all at the same moment, told to send GOAWAY, and killed. Once through evenkeel, and once as the client is without it, through
 * a stand-in for kube-proxy that picks a ready pod for each connection. `npm run proof -- http2-rollout`.
 *
 *   npm run proof -- http2-rollout              all of it; Node 22 or later, for undici 8
 *   npm run proof -- http2-rollout gRPC         one client: h2c, fetch, Connect, gRPC, or gRPC-4 (round robin, 1 to 4 connections to a pod)
 *   npm run proof -- http2-rollout --callers=50 with fewer calls at once than 350
 *   npm run proof -- http2-rollout --only=kill  what happens to the pods, by a part of its name
 *   npm run proof -- http2-rollout --client=evenkeel  without the stock clients
 *
 * A pod that is replaced serves on for 500 ms after its slice said so; those that are replaced at the same moment do not, and send GOAWAY
 * in that moment. Pods that send GOAWAY without being replaced accept new connections. A killed pod is listed for another 500 ms. A client
 * that needs more than 1 GB of heap, or does not answer for a minute, is ended, and that is its result.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { grouped, table } from '../../../bench/lib/table.mjs';

/** @typedef {{ name: string, port: number, terminating: boolean, child: import('node:child_process').ChildProcess, exited: Promise<unknown> }} Pod */
/**
 * @typedef {{ attempts: number, calls: number }} Cut how many attempts failed on a pod, and after how many of them the call failed
 * @typedef {{ calls: number, answered: number, failed: Record<string, number>, cut: Record<string, Cut>, connected?: number, ended?: string }} State
 */

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    callers: { type: 'string', default: '350' },
    only: { type: 'string', default: '' },
    client: { type: 'string', default: '' },
  },
});
const MAX_STREAMS = 100;
/** How much heap a client may have, in MB, so that one that never stops to allocate does not take the machine with it. */
const HEAP_MB = 1_024;
/** When a client that says nothing counts as stuck, in ms. */
const STUCK_MS = 60_000;
/** How long a pod serves on after its slice said that it leaves, and how long the slice of a dead one is out of date, in ms. */
const LAG_MS = 500;
/** How many calls are answered before the first event, and after the last. */
const BETWEEN = 1_000;

const folder = (/** @type {string} */ path) => fileURLToPath(new URL(path, import.meta.url));
const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));
/** Awaits a state, but no longer than 30 s: a client may be stuck, which its failed calls will show. */
async function until(/** @type {() => Promise<boolean>} */ holds) {
  for (const endMs = Date.now() + 30_000; !(await holds()) && Date.now() < endMs; ) await pause(20);
}
/** The clients, by what they are in the table. @type {Record<string, string>} */
const titles = {
  h2c: 'h2c',
  fetch: 'h2c, fetch',
  Connect: 'Connect',
  gRPC: 'gRPC',
  'gRPC-4': 'gRPC, 1 to 4 connections',
};
const protocols = positionals.length > 0 ? positionals : Object.keys(titles);
let started = 0;

/** A Service of one protocol, and a client that calls it. */
class World {
  /** @type {Pod[]} */
  pods = [];
  /** The ports of the pods that were killed. @type {Set<number>} */
  killed = new Set();
  /** Every pod that was started. @type {Pod[]} */
  #all = [];
  #protocol;
  /** @type {import('node:child_process').ChildProcess} */
  #client;
  #proxy;
  #id = 0;
  /** What the client said last. @type {State} */
  #last = { calls: 0, answered: 0, failed: {}, cut: {} };

  /** @param {string} protocol @param {string} how @param {number} count */
  static async start(protocol, how, count) {
    const world = new World(protocol);
    for (let pod = 0; pod < count; pod++) world.pods.push(await world.startPod());
    const port = await world.#listen();
    world.#client = fork(folder('client.mjs'), [protocol, how, String(port), values.callers], {
      execArgv: [`--max-old-space-size=${HEAP_MB}`],
    });
    world.#client.on('error', () => {});
    world.#client.once('exit', (code, signal) => world.#over(`ended with ${signal ?? code}`));
    await Promise.race([once(world.#client, 'message'), once(world.#client, 'exit')]);
    if (world.#last.ended !== undefined) process.exit(1);
    await world.publish();
    await world.goOn(BETWEEN);
    return world;
  }

  /** @param {string} protocol */
  constructor(protocol) {
    this.#protocol = protocol;
    this.#proxy = createServer((socket) => {
      const ready = this.pods.filter(({ terminating }) => !terminating);
      const { port } = /** @type {Pod} */ (ready[Math.floor(Math.random() * ready.length)]);
      const server = connect(port, '127.0.0.1');
      socket.pipe(server).pipe(socket);
      socket.on('error', () => server.destroy()).on('close', () => server.destroy());
      server.on('error', () => socket.resetAndDestroy()).on('close', () => socket.destroy());
    });
  }

  get #isGrpc() {
    return this.#protocol.startsWith('gRPC');
  }

  async #listen() {
    this.#proxy.listen(0, '127.0.0.1');
    await once(this.#proxy, 'listening');
    return /** @type {import('node:net').AddressInfo} */ (this.#proxy.address()).port;
  }

  /** A pod that listens and is not listed yet. @returns {Promise<Pod>} */
  async startPod() {
    const isGrpc = this.#isGrpc;
    const program = isGrpc ? '../../grpc-js/support/pod.mjs' : '../../../support/pods/connect-pod.mjs';
    const options = { name: `pod-${started++}`, port: 0, maxStreams: MAX_STREAMS };
    const child = fork(folder(program), [JSON.stringify(options)], { execArgv: [] });
    const exited = once(child, 'exit');
    const [{ port }] = await once(child, 'message');
    child.on('error', () => {});
    if (isGrpc) child.send({ set: { delayMs: 5 } });
    const pod = { name: options.name, port, terminating: false, child, exited };
    this.#all.push(pod);
    return pod;
  }

  /** Writes the slice: the client, and what stands for kube-proxy, know these pods from now on. */
  publish() {
    return this.#tell({ endpoints: this.pods.map(({ port, terminating }) => ({ port, terminating })) });
  }

  /** @returns {Promise<State>} */
  state() {
    return this.#tell({});
  }

  /** Awaits that many further answers. @param {number} answers */
  async goOn(answers) {
    const { answered } = await this.state();
    await until(async () => {
      const state = await this.state();
      return state.ended !== undefined || state.answered >= answered + answers;
    });
  }

  /** The pod says GOAWAY, answers what runs, and ends. @param {Pod} pod */
  shutDown({ child }) {
    if (this.#isGrpc) child.kill('SIGTERM');
    else child.send({ command: 'shutdown' });
  }

  /** The pod says GOAWAY on all its connections, and accepts new ones. @param {Pod} pod */
  sayGoaway({ child }) {
    child.send(this.#isGrpc ? { goaway: true } : { command: 'goaway' });
  }

  /** Awaits that the client is connected to this many pods; without evenkeel it connects when it likes. @param {number} count */
  async connected(count) {
    await until(async () => ((await this.state()).connected ?? count) >= count);
  }

  async stop() {
    await this.goOn(BETWEEN);
    const result = await this.#tell({ stop: true });
    this.#client.removeAllListeners('exit').kill('SIGKILL');
    this.#proxy.close();
    for (const { child } of this.#all) child.kill('SIGKILL');
    return result;
  }

  /** @param {string} why */
  #over(why) {
    this.#last.ended ??= why;
    this.#client.emit('message', this.#last);
  }

  /** Answers with the last state if the client has ended, and ends it if it does not answer. @param {object} message @returns {Promise<State>} */
  #tell(message) {
    const id = ++this.#id;
    return new Promise((resolve) => {
      if (this.#last.ended !== undefined) {
        resolve(this.#last);
        return;
      }
      const stuck = setTimeout(() => {
        this.#last.ended = 'stuck';
        this.#client.kill('SIGKILL');
      }, STUCK_MS);
      const told = (/** @type {State & { id?: number }} */ answer) => {
        if (answer.id !== id && answer.ended === undefined) return;
        clearTimeout(stuck);
        this.#client.off('message', told);
        this.#last = answer;
        resolve(answer);
      };
      this.#client.on('message', told);
      this.#client.send({ ...message, id });
    });
  }
}

/** What happens to the pods. */
const scenes = {
  /** @param {World} world */
  async 'three pods, replaced one by one'(world) {
    for (const old of [...world.pods]) {
      world.pods.push(await world.startPod());
      await world.publish();
      await world.connected(4);
      old.terminating = true;
      await world.publish();
      await pause(LAG_MS);
      world.shutDown(old);
      await Promise.race([old.exited, pause(10_000)]);
      world.pods = world.pods.filter((pod) => pod !== old);
      await world.publish();
      await world.goOn(BETWEEN);
    }
  },
  /** @param {World} world */
  async 'two of two at the same moment, three times'(world) {
    for (let time = 0; time < 3; time++) {
      const old = world.pods;
      const fresh = [await world.startPod(), await world.startPod()];
      world.pods = [...old, ...fresh];
      await world.publish();
      await world.connected(4);
      for (const pod of old) pod.terminating = true;
      for (const pod of old) world.shutDown(pod);
      await world.publish();
      await Promise.race([Promise.all(old.map(({ exited }) => exited)), pause(10_000)]);
      world.pods = fresh;
      await world.publish();
      await world.goOn(BETWEEN);
    }
  },
  /** @param {World} world */
  async 'GOAWAY from one of two, three times'(world) {
    for (let time = 0; time < 3; time++) {
      world.sayGoaway(/** @type {Pod} */ (world.pods[time % 2]));
      await world.goOn(BETWEEN);
    }
  },
  /** @param {World} world */
  async 'GOAWAY from both at once, three times'(world) {
    for (let time = 0; time < 3; time++) {
      for (const pod of world.pods) world.sayGoaway(pod);
      await world.goOn(BETWEEN);
    }
  },
  /** @param {World} world */
  async 'kill -9 of one of three, three times'(world) {
    for (let time = 0; time < 3; time++) {
      const [killed] = /** @type {[Pod]} */ (world.pods);
      world.killed.add(killed.port);
      killed.child.kill('SIGKILL');
      const fresh = await world.startPod();
      await pause(LAG_MS);
      world.pods = [...world.pods.filter((pod) => pod !== killed), fresh];
      await world.publish();
      await world.connected(3);
      await world.goOn(BETWEEN);
    }
  },
};

const rows = [];
let isKept = true;
for (const protocol of protocols) {
  for (const [scene, play] of Object.entries(scenes).filter(([name]) => name.includes(values.only))) {
    for (const how of ['stock', 'evenkeel'].filter((each) => each.includes(values.client))) {
      // Without evenkeel it is the client of `gRPC`.
      if (how === 'stock' && protocol === 'gRPC-4') continue;
      const world = await World.start(protocol, how, /^two|GOAWAY/.test(scene) ? 2 : 3);
      await play(world);
      const { calls, failed, cut, ended } = await world.stop();
      const count = Object.values(failed).reduce((sum, each) => sum + each, 0);
      const ofKilled = Object.entries(cut).filter(([port]) => world.killed.has(Number(port)));
      const ran = ofKilled.reduce((sum, [, { attempts }]) => sum + attempts, 0);
      const allowed = ofKilled.reduce((sum, [, { calls: lost }]) => sum + lost, 0);
      if (how === 'evenkeel' && (count > allowed || ended !== undefined)) isKept = false;
      // A GET is repeated, unless its response had begun.
      const lost = Object.keys(failed).some((why) => why.startsWith('GET') && !why.includes('after the head'));
      if (how === 'evenkeel' && lost) isKept = false;
      const title = titles[protocol] ?? protocol;
      const failures = ended ? `${grouped(count)}, then ${ended}` : grouped(count);
      rows.push([
        title,
        scene,
        how,
        grouped(calls),
        failures,
        world.killed.size > 0 && how === 'evenkeel' ? grouped(ran) : '',
      ]);
      const why = Object.entries(failed).sort(([, one], [, other]) => other - one);
      console.log(
        `${title}, ${scene}, ${how}: ${calls} calls, ${count} failed${ran > 0 ? ` (${ran} ran on killed pods)` : ''}${ended ? `, ${ended}` : ''}`,
      );
      for (const [message, times] of why.slice(0, 4)) console.log(`    ${times} × ${message}`);
    }
  }
}
console.log(`\nNode ${process.versions.node}, ${values.callers} calls at once\n`);
console.log(table(['protocol', 'pods', 'client', 'calls', 'failed', 'ran on killed pods'], rows, [1, 2]));
process.exit(isKept ? 0 : 1);
