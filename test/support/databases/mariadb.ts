/** Typed access to the real MySQL servers of the tests in `mariadb/servers.mjs`. */

import type { ServerProcess } from '../programs/server-process.js';

/** One MariaDB server: a process with its own data. */
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
  /** Runs statements one after the other, as administrator, on one connection. */
  script(statements: readonly string[]): Promise<void>;
  /** One of its counters, such as `Com_select`. */
  counter(name: string): Promise<number>;
  /** Connections of applications. */
  connections(): Promise<number>;
}

/** The servers of a Service. */
export interface MariadbWorld extends AsyncDisposable {
  readonly all: readonly Mariadb[];
  readonly endpoints: { readonly address: string; readonly port: number }[];
  at(index: number): Mariadb;
  /** Starts one more. */
  add(): Promise<Mariadb>;
  /** All as they were at the start, except that counters go on; only those that do not run are started again. */
  renew(): Promise<void>;
  /** Removes one for good, with SIGTERM. */
  remove(server: Mariadb): Promise<void>;
  /** Ends all of them and removes their data. */
  close(): Promise<void>;
}

export interface MariadbOptions {
  /** @defaultValue mysql-0, mysql-1 … */
  readonly names?: readonly string[];
  /** One per server; they then share a port, like pods. @defaultValue 127.0.0.1 with a port each */
  readonly addresses?: readonly string[];
  /** More options of mariadbd, such as `--max-connections=5`. */
  readonly args?: readonly string[];
  /** PEM. */
  readonly tls?: { readonly cert: string; readonly key: string; readonly ca?: string };
  /** Statements each server runs in `application.database` at every start; they must be repeatable. */
  readonly init?: readonly string[];
}

interface ServersModule {
  readonly application: { readonly user: string; readonly password: string; readonly database: string };
  readonly mariadbPath: string | undefined;
  readonly mariadbHint: string;
  readonly MariadbServers: { start(count: number, options?: MariadbOptions): Promise<MariadbWorld> };
}

// Plain JavaScript, because benchmarks and examples use it too; imported by an address the compiler does not follow.
const servers = (await import(new URL('mariadb/servers.mjs', import.meta.url).href)) as ServersModule;

/** The tests' login and database. May do anything in that database; subject to read_only. */
export const application: ServersModule['application'] = servers.application;

/** Whether MariaDB is missing: `describe.skipIf(noMariadb)(titled('…'), …)`. */
export const noMariadb: boolean = servers.mariadbPath === undefined;

/** A title that says, if MariaDB is missing, why its tests did not run and how to change that. */
export const titled = (title: string): string =>
  noMariadb ? `${title} (not run, there is no MariaDB here; to run it: ${servers.mariadbHint})` : title;

/** Starts `count` servers. They end with this process, however it ends. */
export function startMariadbs(count: number, options: MariadbOptions = {}): Promise<MariadbWorld> {
  return servers.MariadbServers.start(count, options);
}
