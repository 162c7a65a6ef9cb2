/** Real PgBouncers in front of PostgreSQL servers, as a pod each would be. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { freePort } from '../programs/free-port.js';
import { isMissing, titled as titledBy } from '../programs/programs-of-debian.js';
import { application, noPostgres, type Postgres, titled as titledByPostgres } from './postgres.js';

interface Logged {
  readonly log: string;
  start(command: string, args: readonly string[], options: object): Promise<void>;
  end(signal: string): Promise<void>;
}

const at = (path: string): string => new URL(path, import.meta.url).href;
interface Kept {
  readonly path: string;
  tell(pid: number, what: 'started' | 'ended'): void;
  close(): Promise<void>;
}
const { KeptFolder } = (await import(at('../programs/kept-folder.mjs'))) as {
  readonly KeptFolder: new (prefix: string) => Kept;
};
const { LoggedProcess } = (await import(at('../programs/logged-process.mjs'))) as {
  readonly LoggedProcess: new (setting: object) => Logged;
};
const { findCommand } = (await import(at('../../../scripts/system-packages.mjs'))) as {
  readonly findCommand: (commands: readonly string[]) => string | undefined;
};

/** Whether PgBouncer or PostgreSQL is missing. */
export const noPgBouncer: boolean = noPostgres || isMissing('PgBouncer');

/** A title that says, if one of them is missing, why nothing ran and how to change that. */
export const titled = (title: string): string => titledByPostgres(titledBy('PgBouncer', title));

const { give, unprivileged } = (await import(at('../programs/unprivileged.mjs'))) as {
  readonly give: (path: string, user: object) => void;
  readonly unprivileged: () => object;
};

/** One PgBouncer, for the application's database on one server. It ends with this process, however that ends. */
export class PgBouncer {
  readonly endpoint: { readonly address: string; readonly port: number };
  readonly #folder: Kept;
  readonly #process: Logged;

  private constructor(port: number, folder: Kept) {
    this.endpoint = { address: '127.0.0.1', port };
    this.#folder = folder;
    this.#process = new LoggedProcess({
      name: `pgbouncer at ${port}`,
      ready: 'process up',
      onProcess: (pid: number, what: 'started' | 'ended') => folder.tell(pid, what),
    });
  }

  /** @param settings of the section `pgbouncer`, such as `pool_mode`. */
  static async start(server: Postgres, settings: Readonly<Record<string, string | number>> = {}): Promise<PgBouncer> {
    const port = await freePort();
    const folder = new KeptFolder('evenkeel-pgbouncer-');
    const { path } = folder;
    const { user, password, database } = application;
    const all = {
      listen_addr: '127.0.0.1',
      listen_port: port,
      unix_socket_dir: '',
      auth_type: 'scram-sha-256',
      auth_file: join(path, 'users'),
      admin_users: user,
      default_pool_size: 20,
      ...settings,
    };
    const lines = Object.entries(all).map(([key, value]) => `${key} = ${value}\n`);
    const behind = `${database} = host=${server.address} port=${server.port}\n`;
    await writeFile(join(path, 'ini'), `[databases]\n${behind}[pgbouncer]\n${lines.join('')}`);
    await writeFile(join(path, 'users'), `"${user}" "${password}"\n`);
    give(path, unprivileged());
    const bouncer = new PgBouncer(port, folder);
    await bouncer.start();
    return bouncer;
  }

  /** Also brings back one that was stopped, on its old port. */
  async start(): Promise<void> {
    await this.#process.start(findCommand(['pgbouncer']) as string, [join(this.#folder.path, 'ini')], unprivileged());
  }

  get log(): string {
    return this.#process.log;
  }

  /** SIGTERM: it cuts its connections at once. SIGINT: it waits for transactions first. */
  async stop(signal: 'SIGTERM' | 'SIGINT' | 'SIGKILL'): Promise<void> {
    await this.#process.end(signal);
  }

  /** A command of its console, such as PAUSE. */
  // biome-ignore lint/suspicious/noExplicitAny: rows are what the command makes them.
  async command(text: string): Promise<any[]> {
    const { address: host, port } = this.endpoint;
    const client = new pg.Client({ host, port, ...application, database: 'pgbouncer' });
    await client.connect();
    try {
      return (await client.query(text)).rows;
    } finally {
      await client.end();
    }
  }

  async close(): Promise<void> {
    await this.stop('SIGKILL');
    await this.#folder.close();
  }
}
