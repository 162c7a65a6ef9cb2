/** One PostgreSQL server: a process of its own with its own data folder. */
import { readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { findCommand, installHint, systemPackages } from '../../../../scripts/system-packages.mjs';
import { RestartableServer } from '../../programs/restartable-server.mjs';

const wanted = systemPackages.find(({ name }) => name === 'PostgreSQL');

const found = wanted && findCommand(wanted.commands);

/** Where `postgres` and its other programs are installed; undefined when it is not. @type {string | undefined} */
export const postgresPath = found && realpathSync(found);

/** The command that would install it. @type {string} */
export const postgresHint = wanted ? installHint(wanted) : 'install PostgreSQL';

/** The path of one of its other programs. @param {string} name */
export const programOf = (name) => join(dirname(postgresPath ?? '/'), name);

/** Who may do anything. */
export const admin = { user: 'admin', password: 'admin-secret' };

/**
 * @typedef {object} PostgresSetting
 * @property {string} folder its data
 * @property {readonly string[]} args more options, such as `-c max_connections=12`
 * @property {{ uid?: number, gid?: number }} who
 * @property {(path: string) => void} own gives a file to whom it runs as
 */

/** @typedef {import('../../programs/restartable-server.mjs').ServerSetting & PostgresSetting} ServerSetting */

export class PostgresServer extends RestartableServer {
  /** @type {ServerSetting} */
  #setting;

  /** @param {ServerSetting} setting */
  constructor(setting) {
    super(setting, { ready: 'database system is ready to accept' });
    this.#setting = setting;
  }

  get folder() {
    return this.#setting.folder;
  }

  /** Resolves once it takes connections. Also brings back one that was killed or stopped, on its old port. */
  async start() {
    const { name, address, port, folder, args, who } = this.#setting;
    const settings = {
      listen_addresses: address,
      // Servers on different addresses share a port.
      unix_socket_directories: '',
      cluster_name: name,
      max_connections: '200',
      shared_buffers: '16MB',
      // What it writes has to outlive a killed process, not a machine.
      fsync: 'off',
      full_page_writes: 'off',
      wal_level: 'replica',
      wal_log_hints: 'on',
      max_wal_size: '256MB',
      wal_keep_size: '64MB',
      max_wal_senders: '10',
      hot_standby: 'on',
      wal_receiver_status_interval: '1s',
      wal_retrieve_retry_interval: '100ms',
      checkpoint_timeout: '1h',
      autovacuum: 'off',
      jit: 'off',
    };
    const options = Object.entries(settings).flatMap(([key, value]) => ['-c', `${key}=${value}`]);
    await this.process.start(
      /** @type {string} */ (postgresPath),
      ['-D', folder, '-p', String(port), ...options, ...args],
      who,
    );
  }

  /** SIGKILL for all of its processes: no goodbye to anybody. Resolves when the first of them is gone. @override */
  async kill() {
    const { pid } = this;
    if (pid === undefined) return;
    // One that sees its children die would recover; stopped, it sees nothing.
    this.process.signal('SIGSTOP');
    for (const child of childrenOf(pid)) kill(child, 'SIGKILL');
    await this.process.end('SIGKILL');
    rmSync(join(this.folder, 'postmaster.pid'), { force: true });
  }

  /** A fast shutdown, as a pod gets it: the server ends its connections, then itself. @override */
  async stop() {
    await this.process.end(/** @type {any} */ ('SIGINT'));
  }

  /** @override */
  freeze() {
    const { pid } = this;
    if (pid === undefined) return;
    for (const one of [pid, ...childrenOf(pid)]) kill(one, 'SIGSTOP');
  }

  /** @override */
  thaw() {
    const { pid } = this;
    if (pid === undefined) return;
    for (const one of [...childrenOf(pid), pid]) kill(one, 'SIGCONT');
  }

  /** Makes a standby the primary. Resolves when it was told. */
  async promote() {
    await this.sql('SELECT pg_promote(false)');
  }

  /** Makes a standby follow another server; a running one does at once. @param {PostgresServer} primary */
  async follow(primary) {
    const { own, folder, name } = this.#setting;
    const { address, port } = primary;
    const conninfo = `host=${address} port=${port} user=${admin.user} password=${admin.password} application_name=${name}`;
    writeFileSync(join(folder, 'primary.conf'), `primary_conninfo = '${conninfo}'\n`);
    writeFileSync(join(folder, 'standby.signal'), '');
    own(join(folder, 'primary.conf'));
    own(join(folder, 'standby.signal'));
    this.process.signal('SIGHUP');
  }

  /** Runs a statement as administrator, on a connection of its own. @param {string} text @param {unknown[]} [values] */
  async sql(text, values) {
    const { address: host, port } = this;
    const client = new pg.Client({ host, port, database: 'shop', ...admin });
    client.on('error', () => {});
    await client.connect();
    try {
      return (await client.query(text, values)).rows;
    } finally {
      await client.end();
    }
  }

  /** Connections of applications. */
  async connections() {
    const [{ n }] = await this.sql(
      "SELECT count(*)::int AS n FROM pg_stat_activity WHERE backend_type = 'client backend' AND usename <> $1",
      [admin.user],
    );
    return Number(n);
  }
}

/** @param {number} pid @param {NodeJS.Signals} signal */
function kill(pid, signal) {
  try {
    process.kill(pid, signal);
  } catch {
    // It is gone.
  }
}

/** Backends have process groups of their own: they are found by their parent. @param {number} pid */
function childrenOf(pid) {
  return readdirSync('/proc')
    .map(Number)
    .filter((one) => one > 0 && parentOf(one) === pid);
}

/** @param {number} pid */
function parentOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // It comes after the name, which may have spaces and brackets of its own, and the state.
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return 0;
  }
}
