/** One RabbitMQ node: processes with their own data folder. */
import { execFile } from 'node:child_process';
import { connect } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findCommand } from '../../../../scripts/system-packages.mjs';
import { RestartableServer } from '../../programs/restartable-server.mjs';

/** Debian's commands with these names are wrappers for the user `rabbitmq` only; these are the wrapped ones. */
export const scripts = '/usr/lib/rabbitmq/bin';

const run = promisify(execFile);

/**
 * @typedef {object} RabbitSetting
 * @property {string} folder
 * @property {Record<string, string>} env
 * @property {{ uid?: number, gid?: number }} who
 */

/** @typedef {import('../../programs/restartable-server.mjs').ServerSetting & RabbitSetting} BrokerSetting */

export class Broker extends RestartableServer {
  /** @type {BrokerSetting} */
  #setting;

  /** @param {BrokerSetting} setting */
  constructor(setting) {
    // Its own process group, because the node has helpers.
    super(setting, { group: true, ready: 'Server startup complete' });
    this.#setting = setting;
  }

  /** Its name in Erlang. */
  get node() {
    return `${this.name}@localhost`;
  }

  /** @override */
  get endpoint() {
    return { name: this.name, ...super.endpoint };
  }

  /** Resolves once it accepts connections. Also restarts one that was killed or stopped, on its old port. */
  async start() {
    const { folder, env, who } = this.#setting;
    await this.process.start(join(scripts, 'rabbitmq-server'), [], { ...who, cwd: folder, env });
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
    const { address, port } = this;
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
