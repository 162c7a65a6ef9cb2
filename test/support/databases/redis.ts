/** Typed access to the real Redis servers of the tests in `redis/servers.mjs`. */

import type { ServerProcess } from '../programs/server-process.js';

/** One server: a process with its own data. */
export interface RedisServer extends ServerProcess {
  readonly address: string;
  readonly port: number;
  readonly endpoint: { readonly address: string; readonly port: number };
  /** Makes a replica a primary. */
  promote(): Promise<void>;
  /** Makes it the replica of another. */
  follow(primary: RedisServer): Promise<void>;
  /** Runs a command as administrator. */
  // biome-ignore lint/suspicious/noExplicitAny: answers are what the command makes them.
  command(name: string, ...args: readonly string[]): Promise<any>;
  /** How often it ran each command, by name in lower case. */
  commandCounts(): Promise<Map<string, number>>;
  /** Connections of applications. */
  connections(): Promise<number>;
  isInStep(): Promise<boolean>;
}

/** A primary, the first, and its replicas. */
export interface RedisWorld extends AsyncDisposable {
  readonly all: readonly RedisServer[];
  readonly endpoints: RedisServer['endpoint'][];
  at(index: number): RedisServer;
  /** Starts one more. */
  add(primary?: RedisServer): Promise<RedisServer>;
  /** Resolves when every running server but the first is a replica in step with its primary. */
  inStep(): Promise<void>;
  /** Ends all of them and removes their data. */
  close(): Promise<void>;
}

export interface RedisServersOptions {
  /** More options of redis-server. */
  readonly args?: readonly string[];
  /** Of the default user, everywhere. */
  readonly password?: string;
}

interface ServersModule {
  readonly redisPath: string | undefined;
  readonly redisHint: string;
  readonly RedisServers: { start(replicas: number, options?: RedisServersOptions): Promise<RedisWorld> };
}

// Plain JavaScript, because the example uses it too; imported by an address the compiler does not follow.
const servers = (await import(new URL('redis/servers.mjs', import.meta.url).href)) as ServersModule;

/** Whether Redis is missing: `describe.skipIf(noRedis)(titled('…'), …)`. */
export const noRedis: boolean = servers.redisPath === undefined;

/** A title that says, if Redis is missing, why its tests did not run and how to change that. */
export const titled = (title: string): string =>
  noRedis ? `${title} (not run, there is no Redis here; to run it: ${servers.redisHint})` : title;

/** Starts a primary and `replicas` more, in step. They end with this process, however it ends. */
export function startRedis(replicas: number, options: RedisServersOptions = {}): Promise<RedisWorld> {
  return servers.RedisServers.start(replicas, options);
}
