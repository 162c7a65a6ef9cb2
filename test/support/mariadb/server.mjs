/** One MariaDB server: a process of its own with its own data folder. */
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createConnection } from 'mysql2/promise';
import { foldersOf, lastLines, mariadbPath, smallServer } from './program.mjs';

/** Who may do anything, from loopback only. */
export const admin = { user: 'admin', password: 'admin-secret' };

/**
 * @typedef {object} ServerSetting
 * @property {string} name
 * @property {number} id its `@@server_id`
 * @property {string} address
 * @property {number} port
 * @property {string} folder its data
 * @property {string} initFile
 * @property {readonly string[]} args more options of mariadbd
 * @property {{ uid?: number, gid?: number }} who
 * @property {(pid: number, what: 'started' | 'ended') => void} onProcess
 */

export class MariadbServer {
  /** @type {ServerSetting} */
  #setting;
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  #log = '';

  /** @param {ServerSetting} setting */
  constructor(setting) {
    this.#setting = setting;
  }

  get name() {
    return this.#setting.name;
  }

  get id() {
    return this.#setting.id;
  }

  get address() {
    return this.#setting.address;
  }

  get port() {
    return this.#setting.port;
  }

  get endpoint() {
    return { address: this.address, port: this.port };
  }

  /** Undefined while it does not run. */
  get pid() {
    return this.#child?.pid;
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
    const { id, address, port, folder, initFile, args, who, onProcess } = this.#setting;
    this.#log = '';
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
    const child = spawn(/** @type {string} */ (mariadbPath), options, { ...who, stdio: ['ignore', 'ignore', 'pipe'] });
    this.#child = child;
    if (child.pid !== undefined) onProcess(child.pid, 'started');
    child.once('exit', () => {
      this.#child = undefined;
      if (child.pid !== undefined) onProcess(child.pid, 'ended');
    });
    await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code) => {
        reject(new Error(`${this.name} ended with ${code} before it was ready:\n${lastLines(this.#log)}`));
      });
      child.stderr?.on('data', (chunk) => {
        this.#log = `${this.#log}${chunk}`.slice(-100_000);
        if (this.#log.includes('ready for connections')) resolve(undefined);
      });
    });
  }

  /** SIGKILL: no goodbye to anybody. Resolves when the process is gone. */
  async kill() {
    await this.#end('SIGKILL');
  }

  /** SIGTERM, as a pod gets it: the server ends its connections, then itself. */
  async stop() {
    await this.#end('SIGTERM');
  }

  /** The kernel accepts connections and takes bytes for it, it answers nothing. Returns once it stands still. */
  freeze() {
    const child = this.#child;
    if (child?.kill('SIGSTOP')) waitUntilStopped(Number(child.pid));
  }

  thaw() {
    this.#child?.kill('SIGCONT');
  }

  /** @param {boolean} readOnly */
  async setReadOnly(readOnly) {
    await this.sql(`SET GLOBAL read_only = ${readOnly ? 1 : 0}`);
  }

  /** Runs a statement as administrator, on a connection of its own. @param {string} statement @param {unknown[]} [values] */
  async sql(statement, values = []) {
    const connection = await createConnection({ host: this.address, port: this.port, ...admin });
    try {
      const [rows] = await connection.query(statement, values);
      return /** @type {any[]} */ (rows);
    } finally {
      await connection.end();
    }
  }

  /** One of its counters, such as `Com_select` or `Threads_connected`. @param {string} name */
  async counter(name) {
    const [row] = await this.sql('SHOW GLOBAL STATUS LIKE ?', [name]);
    return Number(row.Value);
  }

  /** Connections of others than the administrator. */
  async connections() {
    const query = 'SELECT COUNT(*) AS n FROM information_schema.processlist WHERE user NOT IN (?, ?, ?)';
    const [{ n }] = await this.sql(query, [admin.user, 'event_scheduler', 'system user']);
    return Number(n);
  }

  /** @param {'SIGKILL' | 'SIGTERM'} signal */
  async #end(signal) {
    const child = this.#child;
    if (child === undefined) return;
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    // A frozen process does not hear SIGTERM.
    child.kill('SIGCONT');
    await gone;
  }
}

/**
 * The signal stops a process thread by thread, each when it gets to it: under load some answer for a while. Blocks, so
 * that nothing is sent meanwhile; where there is no /proc to look at, one trusts the signal.
 *
 * @param {number} pid
 */
function waitUntilStopped(pid) {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  for (let round = 0; round < 2_000 && runs(pid); round++) Atomics.wait(cell, 0, 0, 1);
}

/** Whether any of its threads does. @param {number} pid */
function runs(pid) {
  try {
    // A thread that ends while we look has stopped, too.
    return readdirSync(`/proc/${pid}/task`).some((thread) => !/^[TtZX]?$/.test(stateOf(pid, thread)));
  } catch {
    return false;
  }
}

/** One letter, empty once it is gone. @param {number} pid @param {string} thread */
function stateOf(pid, thread) {
  try {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'latin1');
    // It comes after the name, which may have spaces and brackets of its own.
    return stat.charAt(stat.lastIndexOf(')') + 2);
  } catch {
    return '';
  }
}
