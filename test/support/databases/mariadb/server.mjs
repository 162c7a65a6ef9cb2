/** One MariaDB server: a process with its own data folder. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createConnection } from 'mysql2/promise';
import { RestartableServer } from '../../programs/restartable-server.mjs';
import { foldersOf, mariadbPath, smallServer } from './program.mjs';

/** The administrator, who may do anything, from loopback only. */
export const admin = { user: 'admin', password: 'admin-secret' };

/**
 * @typedef {object} MariadbSetting
 * @property {number} id its `@@server_id`
 * @property {string} folder its data
 * @property {string} initFile
 * @property {readonly string[]} args more options of mariadbd
 * @property {{ uid?: number, gid?: number }} who
 */

/** @typedef {import('../../programs/restartable-server.mjs').ServerSetting & MariadbSetting} ServerSetting */

export class MariadbServer extends RestartableServer {
  /** @type {ServerSetting} */
  #setting;

  /** @param {ServerSetting} setting */
  constructor(setting) {
    super(setting, { ready: 'ready for connections' });
    this.#setting = setting;
  }

  get id() {
    return this.#setting.id;
  }

  /** Resolves once it accepts connections. Also restarts one that was killed or stopped, on its old port. */
  async start() {
    const { id, address, port, folder, initFile, args, who } = this.#setting;
    const options = [
      '--no-defaults',
      ...foldersOf(folder),
      `--socket=${join(folder, 's')}`,
      `--pid-file=${join(folder, 'pid')}`,
      `--bind-address=${address}`,
      `--port=${port}`,
      `--server-id=${id}`,
      `--init-file=${initFile}`,
      '--skip-name-resolve',
      '--skip-log-bin',
      ...smallServer,
      ...args,
    ];
    await this.process.start(/** @type {string} */ (mariadbPath), options, who);
  }

  /** Returns once it is stopped. @override */
  freeze() {
    super.freeze();
    if (this.pid !== undefined) waitUntilStopped(this.pid);
  }

  /** @param {boolean} readOnly */
  async setReadOnly(readOnly) {
    await this.sql(`SET GLOBAL read_only = ${readOnly ? 1 : 0}`);
  }

  /** Runs a statement as administrator, on its own connection. @param {string} statement @param {unknown[]} [values] */
  async sql(statement, values = []) {
    return this.#connected(async (connection) => {
      const [rows] = await connection.query(statement, values);
      return /** @type {any[]} */ (rows);
    });
  }

  /** Runs statements one after the other, as administrator, on one connection. @param {readonly string[]} statements */
  async script(statements) {
    await this.#connected(async (connection) => {
      for (const statement of statements) await connection.query(statement);
    });
  }

  /** @template T @param {(connection: import('mysql2/promise').Connection) => Promise<T>} use @returns {Promise<T>} */
  async #connected(use) {
    const connection = await createConnection({ host: this.address, port: this.port, ...admin });
    try {
      return await use(connection);
    } finally {
      await connection.end();
    }
  }

  /** One of its counters, such as `Com_select` or `Threads_connected`. @param {string} name */
  async counter(name) {
    const [row] = await this.sql('SHOW GLOBAL STATUS LIKE ?', [name]);
    return Number(row.Value);
  }

  /** Connections of everyone but the administrator. */
  async connections() {
    const query = 'SELECT COUNT(*) AS n FROM information_schema.processlist WHERE user NOT IN (?, ?, ?)';
    const [{ n }] = await this.sql(query, [admin.user, 'event_scheduler', 'system user']);
    return Number(n);
  }
}

/**
 * The signal stops a process thread by thread, each when it reaches it: under load some answer for a while. Blocks, so that nothing
 * is sent meanwhile. Without /proc it relies on the signal.
 *
 * @param {number} pid
 */
function waitUntilStopped(pid) {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  for (let round = 0; round < 2_000 && runs(pid); round++) Atomics.wait(cell, 0, 0, 1);
}

/** Whether any of its threads runs. @param {number} pid */
function runs(pid) {
  try {
    // A thread that ends meanwhile has stopped, too.
    return readdirSync(`/proc/${pid}/task`).some((thread) => !/^[TtZX]?$/.test(stateOf(pid, thread)));
  } catch {
    return false;
  }
}

/** One letter, empty if the thread is gone. @param {number} pid @param {string} thread */
function stateOf(pid, thread) {
  try {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'latin1');
    // It follows the name, which may contain spaces and brackets.
    return stat.charAt(stat.lastIndexOf(')') + 2);
  } catch {
    return '';
  }
}
