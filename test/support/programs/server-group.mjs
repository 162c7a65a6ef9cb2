/** Real servers that start together or not at all, and end with the process that started them. */
import { KeptFolder } from './kept-folder.mjs';

/** The servers of a Service, in a folder of their own. @template {import('./restartable-server.mjs').RestartableServer} Server */
export class ServerGroup {
  /** All servers added and not removed, running or not. @type {Server[]} */
  all = [];
  /** @protected */
  kept;

  /** @param {string} prefix of the folder's name */
  constructor(prefix) {
    this.kept = new KeptFolder(prefix);
  }

  /** @protected */
  get folder() {
    return this.kept.path;
  }

  get endpoints() {
    return this.all.map(({ endpoint }) => endpoint);
  }

  /** @param {number} index */
  at(index) {
    const server = this.all[index];
    if (server === undefined) throw new Error(`there is no server ${index}`);
    return server;
  }

  /** Ends all of them and removes their data. Idempotent. */
  async close() {
    await Promise.all(this.all.map((server) => server.kill()));
    await this.kept.close();
  }

  async [Symbol.asyncDispose]() {
    await this.close();
  }
}

/**
 * Starts a group. If that fails, closes it and rejects.
 * @template {{ close(): Promise<void> }} T
 * @param {T} group @param {(group: T) => Promise<unknown>} start @returns {Promise<T>}
 */
export async function startGroup(group, start) {
  try {
    await start(group);
    return group;
  } catch (error) {
    await group.close();
    throw error;
  }
}
