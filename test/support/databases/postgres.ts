/** The real PostgreSQL servers of the tests, with types; what they are: `postgres/servers.mjs`. */

import type { ServerProcess } from '../programs/server-process.js';

/** One server: a process of its own with its own data. */
export interface Postgres extends ServerProcess {
  readonly address: string;
  readonly port: number;
  readonly endpoint: { readonly address: string; readonly port: number };
  /** Undefined while it does not run. */
  readonly pid: number | undefined;
  /** Makes a standby the primary. Resolves when it was told. */
  promote(): Promise<void>;
  /** Makes a standby follow another server. */
  follow(primary: Postgres): Promise<void>;
  /** Runs a statement as administrator. */
  // biome-ignore lint/suspicious/noExplicitAny: rows are what the statement makes them.
  sql(text: string, values?: readonly unknown[]): Promise<any[]>;
  /** Connections of applications. */
  connections(): Promise<number>;
}

/** A primary, the first, and its standbys. */
export interface PostgresWorld extends AsyncDisposable {
  readonly all: readonly Postgres[];
  readonly endpoints: { readonly address: string; readonly port: number }[];
  at(index: number): Postgres;
  /** Starts one more standby. */
  add(primary?: Postgres): Promise<Postgres>;
  /** Makes a server that was the primary a standby of another, and starts it. */
  rejoin(server: Postgres, primary: Postgres): Promise<void>;
  /** Ends all of them and removes their data. */
  close(): Promise<void>;
}

export interface PostgresOptions {
  /** One for each; they then share a port, as pods do. @defaultValue 127.0.0.1 with a port each */
  readonly addresses?: readonly string[];
  /** More options of postgres, such as `-c`, `max_connections=12`. */
  readonly args?: readonly string[];
  /** Statements the primary runs once in `application.database`. */
  readonly init?: readonly string[];
  /** PEM. */
  readonly tls?: { readonly cert: string; readonly key: string };
}

interface ServersModule {
  readonly application: { readonly user: string; readonly password: string; readonly database: string };
  readonly postgresPath: string | undefined;
  readonly postgresHint: string;
  readonly PostgresServers: { start(standbys: number, options?: PostgresOptions): Promise<PostgresWorld> };
}

// Plain JavaScript, for examples use it too; so its address is not one the compiler would follow.
const servers = (await import(new URL('postgres/servers.mjs', import.meta.url).href)) as ServersModule;

/** Whom tests log in as, and where. */
export const application: ServersModule['application'] = servers.application;

/** Whether there is no PostgreSQL to test against: `describe.skipIf(noPostgres)(titled('…'), …)`. */
export const noPostgres: boolean = servers.postgresPath === undefined;

/** A title that says, where there is no PostgreSQL, why nothing under it ran and what would change that. */
export const titled = (title: string): string =>
  noPostgres ? `${title} (not run, there is no PostgreSQL here; to run it: ${servers.postgresHint})` : title;

/** Starts a primary and `standbys` more. They end with this process, however it ends. */
export function startPostgres(standbys: number, options: PostgresOptions = {}): Promise<PostgresWorld> {
  return servers.PostgresServers.start(standbys, options);
}
