/** A server for tests: a process with a log that can be restarted after it was killed. */
import { spawn } from 'node:child_process';

/**
 * @typedef {object} ProcessSetting
 * @property {string} name for messages
 * @property {string} ready what its log says once it accepts connections
 * @property {boolean} [group] whether it gets its own process group, for its helpers; signals go to the whole group
 * @property {(pid: number, what: 'started' | 'ended') => void} onProcess called with the pid, negative for a group
 */

export class LoggedProcess {
  /** @type {ProcessSetting} */
  #setting;
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  #log = '';

  /** @param {ProcessSetting} setting */
  constructor(setting) {
    this.#setting = setting;
  }

  /** Undefined while it does not run. */
  get pid() {
    return this.#child?.pid;
  }

  get running() {
    return this.#child !== undefined;
  }

  /** Its log since the last start. */
  get log() {
    return this.#log;
  }

  /**
   * Resolves once it is ready.
   *
   * @param {string} command @param {readonly string[]} args @param {import('node:child_process').SpawnOptions} options
   */
  async start(command, args, options) {
    const { name, ready, group = false, onProcess } = this.#setting;
    if (this.#child !== undefined) throw new Error(`${name} runs already`);
    this.#log = '';
    const child = spawn(command, args, { ...options, detached: group, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child = child;
    const { pid } = child;
    const told = pid === undefined ? undefined : group ? -pid : pid;
    if (told !== undefined) onProcess(told, 'started');
    child.once('exit', () => {
      this.#child = undefined;
      if (told !== undefined) onProcess(told, 'ended');
    });
    await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code) => {
        reject(new Error(`${name} ended with ${code} before it was ready:\n${this.#log.slice(-2_000)}`));
      });
      for (const stream of [child.stdout, child.stderr]) {
        stream?.on('data', (chunk) => {
          this.#log = `${this.#log}${chunk}`.slice(-100_000);
          if (this.#log.includes(ready)) resolve(undefined);
        });
      }
    });
  }

  /** @param {NodeJS.Signals} signal */
  signal(signal) {
    const { pid } = this;
    if (pid === undefined) return;
    try {
      process.kill(this.#setting.group === true ? -pid : pid, signal);
    } catch {
      // Already gone.
    }
  }

  /** Resolves when it is gone. @param {'SIGKILL' | 'SIGTERM'} signal */
  async end(signal) {
    const child = this.#child;
    if (child === undefined) return;
    const gone = new Promise((resolve) => child.once('exit', resolve));
    this.signal(signal);
    // A frozen process does not react to SIGTERM.
    this.signal('SIGCONT');
    await gone;
  }
}
