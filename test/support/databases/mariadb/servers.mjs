/**
 * Real MariaDB servers on loopback, each a process with its own data folder, run by an unprivileged user. They end with
 * the process that started them, even if that is killed. For tests, benchmarks and examples.
 */
import { chmodSync, cpSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from '../../programs/free-port.mjs';
import { ServerGroup, startGroup } from '../../programs/server-group.mjs';
import { give, unprivileged } from '../../programs/unprivileged.mjs';
import { bootstrapOnce, dataFolders } from './program.mjs';
import { admin, MariadbServer } from './server.mjs';

export { mariadbHint, mariadbPath } from './program.mjs';
export { MariadbServer } from './server.mjs';

/** The applications' login and database. */
export const application = { user: 'shop', password: 'shop-secret', database: 'shop' };

/**
 * @typedef {object} ServersOptions
 * @property {readonly string[]} [names] their names; by default mysql-0, mysql-1 …
 * @property {readonly string[]} [addresses] one per server; they then share a port, like pods; by default 127.0.0.1 with a port each
 * @property {readonly string[]} [args] more options of mariadbd, such as `--max-connections=5`
 * @property {{ cert: string, key: string, ca?: string }} [tls] PEM; connections may then be encrypted
 * @property {readonly string[]} [init] statements each server runs when it starts, such as those that make tables
 */

/** `@@server_id` is 1, 2 … in the order they were added. @extends {ServerGroup<MariadbServer>} */
export class MariadbServers extends ServerGroup {
  /** @type {ServersOptions} */
  #options;
  #who = unprivileged();
  #added = 0;
  #initFile = '';
  /** @type {readonly string[]} */
  #args = [];
  #sharedPort = 0;

  /** @param {ServersOptions} options */
  constructor(options) {
    super('evenkeel-db-');
    this.#options = options;
  }

  /** Starts `count` servers. @param {number} count @param {ServersOptions} [options] */
  static async start(count, options = {}) {
    return startGroup(new MariadbServers(options), async (servers) => {
      await servers.#prepare();
      await Promise.all(Array.from({ length: count }, () => servers.add()));
    });
  }

  /** For processes that clean up after this one. */
  describe() {
    return { folder: this.folder, pids: this.all.flatMap(({ pid }) => (pid === undefined ? [] : [pid])) };
  }

  /** Starts one more. @returns {Promise<MariadbServer>} */
  async add() {
    const index = this.#added++;
    const folder = join(this.folder, `data-${index}`);
    for (const path of dataFolders(folder)) mkdirSync(path);
    cpSync(join(this.folder, 'template'), folder, { recursive: true });
    for (const path of dataFolders(folder)) this.#own(path);
    const address = this.#options.addresses?.[index] ?? '127.0.0.1';
    const server = new MariadbServer({
      name: this.#options.names?.[index] ?? `mysql-${index}`,
      id: index + 1,
      address,
      port: this.#sharedPort || (await freePort([address])),
      folder,
      initFile: this.#initFile,
      args: this.#args,
      who: this.#who,
      onProcess: (pid, what) => this.kept.tell(pid, what),
    });
    this.all.push(server);
    this.all.sort((a, b) => a.id - b.id);
    await server.start();
    return server;
  }

  /** All as they were at the start, except that counters go on; only those that do not run are started again. Clients have been closed. */
  async renew() {
    const { database } = application;
    const { init = [] } = this.#options;
    // Users and what they may do outlast their database.
    const renewed = [`DROP DATABASE IF EXISTS ${database}`, `CREATE DATABASE ${database}`, `USE ${database}`, ...init];
    const again = async (/** @type {MariadbServer} */ server) => {
      if (server.running) server.thaw();
      else await server.start();
      // Of those that were just closed it may not have heard.
      while ((await server.connections()) > 0) await pause(5);
      await server.setReadOnly(false);
      await server.script(renewed);
    };
    await Promise.all(this.all.map(again));
  }

  /** Removes one for good, with SIGTERM. @param {MariadbServer} server */
  async remove(server) {
    const index = this.all.indexOf(server);
    if (index !== -1) this.all.splice(index, 1);
    await server.stop();
  }

  async #prepare() {
    const { addresses, args = [], tls, init = [] } = this.#options;
    const template = join(this.folder, 'template');
    this.#own(this.folder);
    await bootstrapOnce(template, this.#who, (path) => this.#own(path));
    const { user, password, database } = application;
    this.#initFile = this.#write('init.sql', [
      "DROP USER IF EXISTS 'root'@'127.0.0.1', 'root'@'::1'",
      `CREATE USER IF NOT EXISTS '${admin.user}'@'%' IDENTIFIED BY '${admin.password}'`,
      `GRANT ALL ON *.* TO '${admin.user}'@'%'`,
      `CREATE DATABASE IF NOT EXISTS ${database}`,
      `CREATE USER IF NOT EXISTS '${user}'@'%' IDENTIFIED BY '${password}'`,
      `GRANT ALL ON ${database}.* TO '${user}'@'%'`,
      `USE ${database}`,
      ...init,
    ]);
    this.#args = tls === undefined ? args : [...args, ...this.#tlsArgs(tls)];
    if (addresses !== undefined) this.#sharedPort = await freePort(addresses);
  }

  /** @param {{ cert: string, key: string, ca?: string }} tls */
  #tlsArgs({ cert, key, ca }) {
    const args = [`--ssl-cert=${this.#write('cert.pem', [cert])}`, `--ssl-key=${this.#write('key.pem', [key])}`];
    return ca === undefined ? args : [...args, `--ssl-ca=${this.#write('ca.pem', [ca])}`];
  }

  /** Writes a file that only the servers can read. @param {string} name @param {readonly string[]} parts */
  #write(name, parts) {
    const path = join(this.folder, name);
    // The init file is read line by line: one statement per line.
    const text = name.endsWith('.sql')
      ? parts.map((part) => `${part.replaceAll('\n', ' ')};\n`).join('')
      : parts.join('');
    writeFileSync(path, text, { mode: 0o600 });
    this.#own(path);
    return path;
  }

  /** Gives a path and everything below it to the servers' user. @param {string} path */
  #own(path) {
    give(path, this.#who);
    if (statSync(path).isDirectory()) chmodSync(path, 0o700);
  }
}
