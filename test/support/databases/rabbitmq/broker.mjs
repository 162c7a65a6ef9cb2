/** One RabbitMQ node: processes with their own data folder. */
import { execFile } from 'node:child_process';
import { connect } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findCommand } from '../../../../scripts/system-packages.mjs';
import { LoggedProcess } from '../../programs/logged-process.mjs';

/** Debian's commands with these names are wrappers for the user `rabbitmq` only; these are the wrapped ones. */
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
    // Its own process group, because the node has helpers.
    this.#process = new LoggedProcess({ name, onProcess, group: true, ready: 'Server startup complete' });
  }

  get name() {
    return this.#setting.name;
  }

  /** Its name in Erlang. */
  get node() {
    return `${this.name}@localhost`;
  }

  get endpoint() {
    return { name: this.name, address: this.#setting.address, port: this.#setting.port };
  }

  get running() {
    return this.#process.running;
  }

  /** Its log since the last start. */
  get log() {
    return this.#process.log;
  }

  /** Resolves once it accepts connections. Also restarts one that was killed or stopped, on its old port. */
  async start() {
    const { folder, env, who } = this.#setting;
    await this.#process.start(join(scripts, 'rabbitmq-server'), [], { ...who, cwd: folder, env });
  }

  /** SIGKILL: no orderly end. Resolves when the process is gone. */
  async kill() {
    await this.#process.end('SIGKILL');
  }

  /** SIGTERM, as a pod gets it: it closes its connections, then exits. */
  async stop() {
    await this.#process.end('SIGTERM');
  }

  /** The kernel accepts connections and bytes for it, but it answers nothing. */
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

  /** Hands over its queue leaders and closes its connections, like the `preStop` hook of RabbitMQ's operator. */
  async drain() {
    await this.#run('rabbitmq-upgrade', ['drain']);
  }

  /** Open connections of applications. @returns {Promise<number>} */
  async connections() {
    return Number(await this.control('eval', 'length(rabbit_networking:local_connections()).'));
  }

  /** Whether it accepts connections. @returns {Promise<boolean>} */
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
