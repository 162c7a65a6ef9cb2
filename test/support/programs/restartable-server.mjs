/** A real server for tests: one process at an address that stays the same over restarts. */
import { LoggedProcess } from './logged-process.mjs';

/**
 * @typedef {object} ServerSetting
 * @property {string} name
 * @property {string} address
 * @property {number} port
 * @property {(pid: number, what: 'started' | 'ended') => void} onProcess
 */

/** What the servers of all databases share. Each says how it starts, and what its log says once it accepts connections. */
export class RestartableServer {
  /** @type {string} */
  name;
  /** @type {string} */
  address;
  /** @type {number} */
  port;
  /** @protected @type {LoggedProcess} */
  process;

  /** @param {ServerSetting} setting @param {{ ready: string, group?: boolean }} log as of `LoggedProcess` */
  constructor({ name, address, port, onProcess }, log) {
    this.name = name;
    this.address = address;
    this.port = port;
    this.process = new LoggedProcess({ name, onProcess, ...log });
  }

  get endpoint() {
    return { address: this.address, port: this.port };
  }

  /** Undefined while it does not run. */
  get pid() {
    return this.process.pid;
  }

  get running() {
    return this.process.running;
  }

  /** Its log since the last start. */
  get log() {
    return this.process.log;
  }

  /** SIGKILL: no orderly end. Resolves when the process is gone. */
  async kill() {
    await this.process.end('SIGKILL');
  }

  /** SIGTERM, as a pod gets it: the server ends its connections, then exits. */
  async stop() {
    await this.process.end('SIGTERM');
  }

  /** The kernel accepts connections and bytes for it, but it answers nothing. */
  freeze() {
    this.process.signal('SIGSTOP');
  }

  thaw() {
    this.process.signal('SIGCONT');
  }
}
