/**
 * Real PostgreSQL servers on loopback: a primary and streaming standbys, each a process with its own data folder, run by an
 * unprivileged user. They end with the process that started them, even if that is killed. For tests and examples.
 */
import { execFile } from 'node:child_process';
import { appendFileSync, chmodSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../programs/free-port.mjs';
import { madeOnce } from '../../programs/made-once.mjs';
import { ServerGroup, startGroup } from '../../programs/server-group.mjs';
import { give, unprivileged } from '../../programs/unprivileged.mjs';
import { admin, PostgresServer, postgresHint, postgresPath, programOf } from './server.mjs';

export { postgresHint, postgresPath } from './server.mjs';

const run = promisify(execFile);

/** The applications' login and database. */
export const application = { user: 'shop', password: 'shop-secret', database: 'shop' };

/**
 * @typedef {object} ServersOptions
 * @property {readonly string[]} [addresses] one for each, which then share a port, as pods do; by default 127.0.0.1 with a port each
 * @property {readonly string[]} [args] more options of postgres, such as `-c`, `max_connections=12`
 * @property {readonly string[]} [init] statements the primary runs once in the application's database
 * @property {{ cert: string, key: string }} [tls] PEM; connections may then be encrypted
 */

/** A primary, pg-0, and its standbys. @extends {ServerGroup<PostgresServer>} */
export class PostgresServers extends ServerGroup {
  #options;
  #who = unprivileged();
  #sharedPort = 0;
  #added = 0;

  /** @param {ServersOptions} options */
  constructor(options) {
    super('evenkeel-pg-');
    this.#options = options;
  }

  /** Starts a primary and `standbys` more. @param {number} standbys @param {ServersOptions} [options] */
  static async start(standbys, options = {}) {
    return startGroup(new PostgresServers(options), async (servers) => {
      await servers.#prepare();
      await Promise.all(Array.from({ length: standbys }, () => servers.add()));
    });
  }

  /** Starts one more standby. @param {PostgresServer} [primary] */
  async add(primary = this.at(0)) {
    const server = await this.#create();
    await this.#copy(server, primary);
    await server.start();
    return server;
  }

  /** Makes a server that was the primary a standby of another, with that one's data, and starts it. @param {PostgresServer} server @param {PostgresServer} primary */
  async rejoin(server, primary) {
    rmSync(server.folder, { recursive: true });
    await this.#copy(server, primary);
    await server.start();
  }

  async #create() {
    const index = this.#added++;
    const address = this.#options.addresses?.[index] ?? '127.0.0.1';
    const server = new PostgresServer({
      name: `pg-${index}`,
      address,
      port: this.#sharedPort || (await freePort([address])),
      folder: join(this.folder, `data-${index}`),
      args: [...(this.#options.args ?? []), ...(this.#options.tls ? ['-c', 'ssl=on'] : [])],
      who: this.#who,
      own: (path) => give(path, this.#who),
      onProcess: (pid, what) => this.kept.tell(pid, what),
    });
    this.all.push(server);
    this.all.sort((a, b) => a.name.localeCompare(b.name));
    return server;
  }

  /** @param {PostgresServer} server @param {PostgresServer} primary */
  async #copy(server, { address, port }) {
    const to = ['-D', server.folder, '-h', address, '-p', String(port), '-U', admin.user];
    const env = { ...process.env, PGPASSWORD: admin.password };
    await run(programOf('pg_basebackup'), [...to, '--checkpoint=fast', '--no-sync'], { ...this.#who, env, cwd: '/' });
    await server.follow(
      /** @type {PostgresServer} */ (this.all.find((one) => one.port === port && one.address === address)),
    );
  }

  async #prepare() {
    const { addresses, init = [], tls } = this.#options;
    chmodSync(this.folder, 0o755);
    give(this.folder, this.#who);
    if (addresses !== undefined) this.#sharedPort = await freePort(addresses);
    const primary = await this.#create();
    await initOnce(primary.folder, this.folder, this.#who);
    if (tls !== undefined) {
      for (const [name, text] of [
        ['server.crt', tls.cert],
        ['server.key', tls.key],
      ]) {
        writeFileSync(join(primary.folder, name), text, { mode: 0o600 });
        give(join(primary.folder, name), this.#who);
      }
    }
    await primary.start();
    for (const statement of init) await primary.sql(statement);
    const { user } = application;
    await primary.sql(`GRANT ALL ON ALL TABLES IN SCHEMA public TO ${user}`);
    await primary.sql(`GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO ${user}`);
  }
}

/**
 * A data folder with the application's user and database in it, from an earlier start if there was one: `initdb` takes as long as
 * everything else.
 * @param {string} folder @param {string} sockets @param {import('../../programs/unprivileged.mjs').User} who
 */
async function initOnce(folder, sockets, who) {
  if (postgresPath === undefined) throw new Error(`PostgreSQL is not installed: ${postgresHint}`);
  const fill = () => init(/** @type {string} */ (postgresPath), folder, sockets, who);
  if (!(await madeOnce({ folder, program: postgresPath, kind: 'postgres', settings: 2, fill }))) return;
  chmodSync(folder, 0o700);
  give(folder, who);
}

/** @param {string} program @param {string} folder @param {string} sockets @param {import('../../programs/unprivileged.mjs').User} who */
async function init(program, folder, sockets, who) {
  const secret = join(sockets, 'secret');
  writeFileSync(secret, admin.password);
  give(secret, who);
  const how = ['-U', admin.user, `--pwfile=${secret}`, '-A', 'scram-sha-256', '-E', 'UTF8', '--locale=C', '--no-sync'];
  // Each copy of a server would be filled up with 16 MB of log.
  how.push('--wal-segsize=1');
  await run(programOf('initdb'), ['-D', folder, ...how], { ...who, cwd: '/' });
  appendFileSync(join(folder, 'postgresql.conf'), "include_if_exists = 'primary.conf'\n");
  const from = '127.0.0.0/8 scram-sha-256\n';
  writeFileSync(join(folder, 'pg_hba.conf'), `host all all ${from}host replication all ${from}`);
  const { user, password, database } = application;
  const args = ['--single', '-D', folder, '-c', `unix_socket_directories=${sockets}`, 'postgres'];
  const single = execFile(program, args, { ...who, cwd: '/' });
  single.stdin?.end(`CREATE ROLE ${user} LOGIN PASSWORD '${password}'\nCREATE DATABASE ${database} OWNER ${user}\n`);
  const code = await new Promise((resolve) => single.once('close', resolve));
  if (code !== 0) throw new Error(`postgres --single ended with ${code}`);
}
