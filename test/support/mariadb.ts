/** The real MySQL servers of the tests, with types; what they are: `mariadb/servers.mjs`. */

import type { ServerProcess } from './server-process.js';

/** One MariaDB server: a process of its own with its own data. */
export interface Mariadb extends ServerProcess {
  /** Its `@@server_id`: 1 for the first, and so on. */
  readonly id: number;
  readonly address: string;
  readonly port: number;
  readonly endpoint: { readonly address: string; readonly port: number };
  /** Undefined while it does not run. */
  readonly pid: number | undefined;
  setReadOnly(readOnly: boolean): Promise<void>;
  /** Runs a statement as administrator. */
  // biome-ignore lint/suspicious/noExplicitAny: rows are what the statement makes them.
  sql(statement: string, values?: readonly unknown[]): Promise<any[]>;
  /** One of its counters, such as `Com_select`. */
  counter(name: string): Promise<number>;
  /** Connections of applications. */
  connections(): Promise<number>;
}

/** A Service's worth of them. */
export interface MariadbWorld extends AsyncDisposable {
  readonly all: readonly Mariadb[];
  readonly endpoints: { readonly address: string; readonly port: number }[];
  at(index: number): Mariadb;
  /** Starts one more. */
  add(): Promise<Mariadb>;
  /** Takes one away for good, with SIGTERM. */
  remove(server: Mariadb): Promise<void>;
  /** Ends all of them and removes their data. */
  close(): Promise<void>;
}

export interface MariadbOptions {
  /** @defaultValue mysql-0, mysql-1 … */
  readonly names?: readonly string[];
  /** One for each; they then share a port, as pods do. @defaultValue 127.0.0.1 with a port each */
  readonly addresses?: readonly string[];
  /** More options of mariadbd, such as `--max-connections=5`. */
  readonly args?: readonly string[];
  /** PEM. */
  readonly tls?: { readonly cert: string; readonly key: string; readonly ca?: string };
  /** Statements each server runs in `application.database` when it starts; they have to bear being run again. */
  readonly init?: readonly string[];
}

interface ServersModule {
  readonly application: { readonly user: string; readonly password: string; readonly database: string };
  readonly mariadbPath: string | undefined;
  readonly mariadbHint: string;
  readonly MariadbServers: { start(count: number, options?: MariadbOptions): Promise<MariadbWorld> };
}

// Plain JavaScript, for benchmarks and examples use it too; so its address is not one the compiler would follow.
const servers = (await import(new URL('mariadb/servers.mjs', import.meta.url).href)) as ServersModule;

/** Whom tests log in as, and where. May do anything in that database; obeys read_only. */
export const application: ServersModule['application'] = servers.application;

/** Whether there is no MariaDB to test against: `describe.skipIf(noMariadb)(titled('…'), …)`. */
export const noMariadb: boolean = servers.mariadbPath === undefined;

/** A title that says, where there is no MariaDB, why nothing under it ran and what would change that. */
export const titled = (title: string): string =>
  noMariadb ? `${title} (not run, there is no MariaDB here; to run it: ${servers.mariadbHint})` : title;

/** Starts `count` servers. They end with this process, however it ends. */
export function startMariadbs(count: number, options: MariadbOptions = {}): Promise<MariadbWorld> {
  return servers.MariadbServers.start(count, options);
}
