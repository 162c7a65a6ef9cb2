/** One RabbitMQ node: processes of their own with their own data folder. */
import { execFile } from 'node:child_process';
import { connect } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findCommand } from '../../../scripts/system-packages.mjs';
import { LoggedProcess } from '../logged-process.mjs';

/** Debian's commands of these names are wrappers for the user `rabbitmq` alone; these are what they wrap. */
export const scripts = '/usr/lib/rabbitmq/bin';

const run = promisify(execFile);

/**
 * @typedef {object} BrokerSetting
 * @property {string} name such as `rabbit-0`
 * @property {string} address
 * @property {number} port
 * @property {string} folder
 * @property {Record<string, string>} env
 * @property {{ uid?: number, gid?: number }} who
 * @property {(group: number, what: 'started' | 'ended') => void} onProcess
 */

export class Broker {
  /** @type {BrokerSetting} */
  #setting;
  /** @type {LoggedProcess} */
  #process;

  /** @param {BrokerSetting} setting */
  constructor(setting) {
    const { name, onProcess } = setting;
    this.#setting = setting;
    // A group of its own: the node has helpers.
    this.#process = new LoggedProcess({ name, onProcess, group: true, ready: 'Server startup complete' });
  }

  get name() {
    return this.#setting.name;
  }

  /** As Erlang names it. */
  get node() {
    return `${this.name}@localhost`;
  }

  get endpoint() {
    return { name: this.name, address: this.#setting.address, port: this.#setting.port };
  }

  get running() {
    return this.#process.running;
  }

  /** What it logged since it was started last. */
  get log() {
    return this.#process.log;
  }

  /** Resolves once it takes connections. Also brings back one that was killed or stopped, on its old port. */
  async start() {
    const { folder, env, who } = this.#setting;
    await this.#process.start(join(scripts, 'rabbitmq-server'), [], { ...who, cwd: folder, env });
  }

  /** SIGKILL: no goodbye to anybody. Resolves when the process is gone. */
  async kill() {
    await this.#process.end('SIGKILL');
  }

  /** SIGTERM, as a pod gets it: it closes its connections, then itself. */
  async stop() {
    await this.#process.end('SIGTERM');
  }

  /** Its kernel accepts connections and takes bytes for it, it answers nothing. */
  freeze() {
    this.#process.signal('SIGSTOP');
  }

  thaw() {
    this.#process.signal('SIGCONT');
  }

  /** Runs rabbitmqctl against it. @param {readonly string[]} args @returns {Promise<string>} */
  async control(...args) {
    return this.#run('rabbitmqctl', args);
  }

  /** Hands its queue leaders to others and closes what is connected, as the `preStop` hook of RabbitMQ's operator has it do. */
  async drain() {
    await this.#run('rabbitmq-upgrade', ['drain']);
  }

  /** Connections of applications that are open on it. @returns {Promise<number>} */
  async connections() {
    return Number(await this.control('eval', 'length(rabbit_networking:local_connections()).'));
  }

  /** Whether it takes connections. @returns {Promise<boolean>} */
  accepts() {
    const { address, port } = this.#setting;
    return new Promise((resolve) => {
      const socket = connect(port, address);
      socket.once('error', () => resolve(false));
      socket.once('connect', () => {
        socket.destroy();
        resolve(true);
      });
    });
  }

  /** @param {string} script @param {readonly string[]} args */
  async #run(script, args) {
    const { folder, env, who } = this.#setting;
    const all = ['--quiet', '--node', this.node, ...args];
    const { stdout } = await run(join(scripts, script), all, { ...who, cwd: folder, env });
    return stdout.trim();
  }
}

export const rabbitmqPath = findCommand(['rabbitmq-server']);
