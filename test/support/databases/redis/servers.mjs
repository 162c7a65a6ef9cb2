/**
 * Real Redis servers on loopback: a primary and its replicas, each a process with its own data folder. They end with the process that
 * started them, also when that is killed. For tests and examples.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { findCommand, installHint, systemPackages } from '../../../../scripts/system-packages.mjs';
import { freePort } from '../../programs/free-port.mjs';
import { RestartableServer } from '../../programs/restartable-server.mjs';
import { ServerGroup, startGroup } from '../../programs/server-group.mjs';

const wanted = systemPackages.find(({ name }) => name === 'Redis');

/** Where `redis-server` is installed; undefined when it is not. @type {string | undefined} */
export const redisPath = wanted && findCommand(wanted.commands);

/** The command that would install it. @type {string} */
export const redisHint = wanted ? installHint(wanted) : 'install Redis';

/**
 * @typedef {object} RedisSetting
 * @property {string} folder its data
 * @property {readonly string[]} args more options, such as `--requirepass`, `secret`
 * @property {string} password of its default user; empty = none
 */

/** @typedef {import('../../programs/restartable-server.mjs').ServerSetting & RedisSetting} ServerSetting */

export class RedisServer extends RestartableServer {
  /** @type {ServerSetting} */
  #setting;

  /** @param {ServerSetting} setting */
  constructor(setting) {
    super(setting, { ready: 'Ready to accept connections' });
    this.#setting = setting;
  }

  /** Resolves once it accepts connections. Also restarts one that was killed or stopped, on its old port. @param {readonly string[]} [more] */
  async start(more = []) {
    const { name, port, folder, args } = this.#setting;
    const settings = {
      bind: this.address,
      port: String(port),
      dir: folder,
      'replica-announce-ip': this.address,
      'repl-diskless-sync-delay': '0',
      'repl-ping-replica-period': '1',
      // Only `stop` saves. Nothing is ever written outside the folder.
      save: '',
      'enable-debug-command': 'yes',
    };
    const options = Object.entries(settings).flatMap(([key, value]) => [`--${key}`, value]);
    await this.process.start(/** @type {string} */ (redisPath), [...options, ...args, ...more], { cwd: folder });
    if (!this.log.includes('Ready to accept')) throw new Error(`${name} is not ready`);
  }

  /** Like SIGTERM, as a pod gets it: it closes its connections and exits. It saves its data, so that a start brings it back. @override */
  async stop() {
    await this.command('SHUTDOWN', 'SAVE').catch(() => {});
    await this.process.end('SIGTERM');
  }

  /** Makes a replica a primary. */
  async promote() {
    await this.command('REPLICAOF', 'NO', 'ONE');
  }

  /** Makes it the replica of another. @param {RedisServer} primary */
  async follow({ address, port }) {
    await this.command('REPLICAOF', address, String(port));
  }

  /** Runs a command as administrator. @param {string} name @param {readonly string[]} args @returns {Promise<any>} */
  async command(name, ...args) {
    const { password } = this.#setting;
    const client = new Redis({
      port: this.port,
      password,
      lazyConnect: true,
      retryStrategy: () => null,
      enableReadyCheck: false,
      disableClientInfo: true,
    });
    client.on('error', () => {});
    try {
      return await client.call(name, ...args);
    } finally {
      client.disconnect();
    }
  }

  /** How often it ran each command, by name in lower case, without those of administration. @returns {Promise<Map<string, number>>} */
  async commandCounts() {
    const lines = /** @type {string} */ (await this.command('INFO', 'commandstats')).split('\r\n');
    const counts = new Map();
    for (const line of lines) {
      const [, name, calls] = /^cmdstat_([^:]+):calls=(\d+)/.exec(line) ?? [];
      if (name !== undefined) counts.set(name, Number(calls));
    }
    return counts;
  }

  /** Connections of applications, without the one that asks. */
  async connections() {
    const list = /** @type {string} */ (await this.command('CLIENT', 'LIST', 'TYPE', 'normal'));
    return list.trim().split('\n').length - 1;
  }

  /** Whether it is a replica in step with its primary. */
  async isInStep() {
    return /master_link_status:up/.test(await this.command('INFO', 'replication'));
  }
}

/**
 * @typedef {object} ServersOptions
 * @property {readonly string[]} [args] more options of redis-server
 * @property {string} [password] of the default user, everywhere
 */

/** A primary, redis-0, and its replicas. @extends {ServerGroup<RedisServer>} */
export class RedisServers extends ServerGroup {
  #options;
  #added = 0;

  /** @param {ServersOptions} options */
  constructor(options) {
    super('evenkeel-redis-');
    this.#options = options;
  }

  /** Starts a primary and `replicas` more; they are in step. @param {number} replicas @param {ServersOptions} [options] */
  static start(replicas, options = {}) {
    return startGroup(new RedisServers(options), async (servers) => {
      await servers.add();
      await Promise.all(Array.from({ length: replicas }, () => servers.add(servers.at(0))));
      await servers.inStep();
    });
  }

  /** Starts one more. @param {RedisServer} [primary] whose replica it is */
  async add(primary) {
    const { args = [], password = '' } = this.#options;
    const name = `redis-${this.#added++}`;
    const folder = join(this.kept.path, name);
    mkdirSync(folder);
    const secret = password === '' ? [] : ['--requirepass', password, '--masterauth', password];
    const of = primary === undefined ? [] : ['--replicaof', `${primary.address} ${primary.port}`];
    const server = new RedisServer({
      name,
      address: '127.0.0.1',
      port: await freePort(),
      folder,
      password,
      args: [...secret, ...of, ...args],
      onProcess: (pid, what) => this.kept.tell(pid, what),
    });
    this.all.push(server);
    await server.start();
    return server;
  }

  /** Resolves when every running server but the first is a replica in step with its primary. */
  async inStep() {
    for (const server of this.all.slice(1)) {
      while (server.running && !(await server.isInStep())) await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}
