/** One RabbitMQ node: processes of their own with their own data folder. */
import { execFile, spawn } from 'node:child_process';
import { connect } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findCommand } from '../../../scripts/system-packages.mjs';

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
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  #log = '';

  /** @param {BrokerSetting} setting */
  constructor(setting) {
    this.#setting = setting;
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
    return this.#child !== undefined;
  }

  /** What it logged since it was started last. */
  get log() {
    return this.#log;
  }

  /** Resolves once it takes connections. Also brings back one that was killed or stopped, on its old port. */
  async start() {
    if (this.#child !== undefined) throw new Error(`${this.name} runs already`);
    const { folder, env, who, onProcess } = this.#setting;
    this.#log = '';
    // A group of its own: the node has helpers.
    const child = spawn(join(scripts, 'rabbitmq-server'), [], {
      ...who,
      cwd: folder,
      env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    const { pid } = child;
    if (pid !== undefined) onProcess(-pid, 'started');
    child.once('exit', () => {
      this.#child = undefined;
      if (pid !== undefined) onProcess(-pid, 'ended');
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk) => {
        this.#log = `${this.#log}${chunk}`.slice(-100_000);
      });
    }
    await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code) => reject(new Error(`${this.name} ended with ${code}:\n${this.#log.slice(-2_000)}`)));
      child.stdout?.on('data', () => {
        if (this.#log.includes('Server startup complete')) resolve(undefined);
      });
    });
  }

  /** SIGKILL: no goodbye to anybody. Resolves when the process is gone. */
  async kill() {
    await this.#end('SIGKILL');
  }

  /** SIGTERM, as a pod gets it: it closes its connections, then itself. */
  async stop() {
    await this.#end('SIGTERM');
  }

  /** Its kernel accepts connections and takes bytes for it, it answers nothing. */
  freeze() {
    this.#signal('SIGSTOP');
  }

  thaw() {
    this.#signal('SIGCONT');
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

  /** @param {NodeJS.Signals} signal */
  async #end(signal) {
    const child = this.#child;
    if (child === undefined) return;
    const exited = new Promise((resolve) => child.once('exit', resolve));
    this.#signal(signal);
    await exited;
  }

  /** @param {NodeJS.Signals} signal */
  #signal(signal) {
    const pid = this.#child?.pid;
    if (pid === undefined) return;
    try {
      process.kill(-pid, signal);
    } catch {
      // It is gone.
    }
  }
}

export const rabbitmqPath = findCommand(['rabbitmq-server']);
