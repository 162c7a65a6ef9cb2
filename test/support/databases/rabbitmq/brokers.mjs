/**
 * Real RabbitMQ nodes on loopback, clustered, each with its own data folder, run by an unprivileged user. They, and Erlang's name
 * server started for them, end with the process that started them, even if that is killed. For tests and examples.
 */
import { spawn } from 'node:child_process';
import { chownSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { findCommand, installHint, systemPackages } from '../../../../scripts/system-packages.mjs';
import { freePort } from '../../programs/free-port.mjs';
import { ServerGroup, startGroup } from '../../programs/server-group.mjs';
import { unprivileged } from '../../programs/unprivileged.mjs';
import { Broker, rabbitmqPath } from './broker.mjs';

export { Broker, rabbitmqPath } from './broker.mjs';

const wanted = systemPackages.find(({ name }) => name === 'RabbitMQ');

/** The command that installs it. @type {string} */
export const rabbitmqHint = wanted ? installHint(wanted) : 'install RabbitMQ';

/** Erlang's distribution stays on loopback, and one scheduler per node is enough. */
const erlang = ['-kernel', 'inet_dist_use_interface', '{127,0,0,1}'];

/** The brokers of a Service: one cluster, with one port on separate addresses, like pods. @extends {ServerGroup<Broker>} */
export class RabbitBrokers extends ServerGroup {
  #who = unprivileged();
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #names;

  constructor() {
    super('evenkeel-mq-');
  }

  /** Starts `count` nodes as one cluster. @param {number} count */
  static async start(count) {
    if (rabbitmqPath === undefined) throw new Error(`RabbitMQ is not installed: ${rabbitmqHint}`);
    return startGroup(new RabbitBrokers(), (brokers) => brokers.#start(count));
  }

  /** @override */
  async close() {
    this.#names?.kill('SIGKILL');
    await super.close();
  }

  /** @param {number} count */
  async #start(count) {
    const addresses = Array.from({ length: count }, (_, index) => `127.0.0.${index + 1}`);
    const port = await freePort(addresses);
    const epmdPort = await freePort();
    this.#own(this.folder);
    const cookie = join(this.folder, '.erlang.cookie');
    writeFileSync(cookie, 'evenkeel', { mode: 0o600 });
    this.#own(cookie);
    const shared = {
      PATH: `${process.env.PATH}`,
      HOME: this.folder,
      LANG: 'C.UTF-8',
      ERL_EPMD_ADDRESS: '127.0.0.1',
      ERL_EPMD_PORT: String(epmdPort),
    };
    await this.#startNames(epmdPort, shared);
    for (const [index, address] of addresses.entries()) {
      const name = `rabbit-${index}`;
      const folder = join(this.folder, name);
      mkdirSync(folder);
      this.#own(folder);
      /** @param {string} file @param {readonly string[]} lines */
      const write = (file, lines) => {
        writeFileSync(join(folder, file), `${lines.join('\n')}\n`);
        return join(folder, file);
      };
      // Erlang terms: a node takes seconds to read the newer format.
      const config = write('rabbitmq.config', [
        '[{rabbit, [',
        `  {tcp_listeners, [{"${address}", ${port}}]},`,
        '  {disk_free_limit, 1000000},',
        '  {log, [{console, [{enabled, true}, {level, info}]}, {file, [{file, false}]}]},',
        // They find each other at their first start.
        `  {cluster_nodes, {[${addresses.map((_, other) => `'rabbit-${other}@localhost'`).join(', ')}], disc}}`,
        ']}].',
      ]);
      const distribution = await freePort();
      const env = {
        ...shared,
        RABBITMQ_NODENAME: `${name}@localhost`,
        RABBITMQ_CONF_ENV_FILE: '/dev/null',
        RABBITMQ_CONFIG_FILE: config,
        RABBITMQ_ENABLED_PLUGINS_FILE: write('plugins', ['[].']),
        RABBITMQ_MNESIA_BASE: join(folder, 'data'),
        RABBITMQ_LOG_BASE: join(folder, 'log'),
        RABBITMQ_PID_FILE: join(folder, 'pid'),
        RABBITMQ_DIST_PORT: String(distribution),
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: [...erlang, '+S', '1:1', '+sbwt', 'none', '+sbwtdcpu', 'none'].join(' '),
        RABBITMQ_CTL_ERL_ARGS: [...erlang, '+S', '1:1'].join(' '),
      };
      const onProcess = (/** @type {number} */ pid, /** @type {'started' | 'ended'} */ what) =>
        this.kept.tell(pid, what);
      this.all.push(new Broker({ name, address, port, folder, env, who: this.#who, onProcess }));
    }
    await Promise.all(this.all.map((broker) => broker.start()));
  }

  /** @param {number} port @param {Record<string, string>} env */
  async #startNames(port, env) {
    const epmd = findCommand(['epmd']);
    if (epmd === undefined) throw new Error('epmd of Erlang is not installed');
    const child = spawn(epmd, ['-port', String(port), '-address', '127.0.0.1'], { ...this.#who, env, stdio: 'ignore' });
    this.#names = child;
    if (child.pid !== undefined) this.kept.tell(child.pid, 'started');
    for (;;) {
      if (child.exitCode !== null) throw new Error(`epmd ended with ${child.exitCode}`);
      const listens = await new Promise((resolve) => {
        const socket = connect(port, '127.0.0.1');
        socket.once('error', () => resolve(false)).once('connect', () => resolve(true));
        socket.once('connect', () => socket.destroy());
      });
      if (listens) return;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** @param {string} path */
  #own(path) {
    const { uid, gid } = this.#who;
    if (uid !== undefined && gid !== undefined) chownSync(path, uid, gid);
  }
}
