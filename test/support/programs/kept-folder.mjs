/** A temporary folder for servers that must not outlive the process that started them. */
import { fork } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('keeper.cjs', import.meta.url));

/** When this process ends, even if killed, a keeper process removes the folder and kills the servers in it. */
export class KeptFolder {
  /** @type {string} */
  path;
  /** @type {import('node:child_process').ChildProcess} */
  #keeper;

  /** @param {string} prefix of its name */
  constructor(prefix) {
    this.path = mkdtempSync(join(tmpdir(), prefix));
    // In its own process group, so that a signal to ours leaves it time to clean up.
    this.#keeper = fork(program, [this.path], { execArgv: [], detached: true, stdio: 'ignore' });
    this.#keeper.on('error', () => {});
    this.#keeper.unref();
    this.#keeper.channel?.unref();
  }

  /** A server of this folder started or ended. @param {number} pid negative for a process group @param {'started' | 'ended'} what */
  tell(pid, what) {
    if (this.#keeper.connected) this.#keeper.send({ [what]: pid });
  }

  /** Removes the folder. Idempotent. */
  async close() {
    if (this.#keeper.exitCode !== null || this.#keeper.signalCode !== null) return;
    const gone = new Promise((resolve) => this.#keeper.once('exit', resolve));
    this.#keeper.ref();
    if (this.#keeper.connected) this.#keeper.disconnect();
    await gone;
  }
}
