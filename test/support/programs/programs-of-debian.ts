import { type ChildProcess, spawn } from 'node:child_process';
import { chmod, chown, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../until.js';
import { freePort } from './free-port.js';

interface SystemPackage {
  readonly name: string;
  readonly commands: readonly string[];
  readonly apt: string;
}

const { systemPackages, findCommand, installHint } = (await import(
  new URL('../../../scripts/system-packages.mjs', import.meta.url).href
)) as {
  readonly systemPackages: readonly SystemPackage[];
  readonly findCommand: (commands: readonly string[]) => string | undefined;
  readonly installHint: (wanted: SystemPackage) => string;
};

/** Those that `SystemServer` can start. */
export type ServerProgram = 'Mosquitto' | 'memcached' | 'aiosmtpd' | 'OpenLDAP' | 'Prometheus';

/** Debian's user `nobody`, for a program that would otherwise stay root when started by root. */
const NOBODY = 65_534;

const packageOf = (name: string): SystemPackage => systemPackages.find((one) => one.name === name) as SystemPackage;

/** Whether it is missing: `it.skipIf(isMissing('memcached'))(titled('memcached', '…'), …)`. */
export const isMissing = (name: string): boolean => findCommand(packageOf(name).commands) === undefined;

/** A title that says, if the program is missing, why nothing ran and how to change that. */
export const titled = (name: string, title: string): string =>
  isMissing(name) ? `${title} (not run, there is no ${name} here; to run it: ${installHint(packageOf(name))})` : title;

/** A server from a system package, on loopback, as an unprivileged user. */
export class SystemServer implements AsyncDisposable {
  readonly endpoint: { readonly address: string; readonly port: number };
  readonly #child: ChildProcess;
  readonly #folder: string;

  private constructor(child: ChildProcess, port: number, folder: string) {
    this.#child = child;
    this.#folder = folder;
    this.endpoint = { address: '127.0.0.1', port };
  }

  /** @param own The test's own settings; `files`: files they refer to, created next to them. */
  static async start(
    name: ServerProgram,
    own = '',
    files: Readonly<Record<string, string>> = {},
  ): Promise<SystemServer> {
    const path = findCommand(packageOf(name).commands) as string;
    const port = await freePort();
    const folder = await mkdtemp(join(tmpdir(), 'evenkeel-'));
    const config = join(folder, 'server.conf');
    // When started by root, Mosquitto switches to its package's user, and slapd to `nobody` before it reads this.
    await chmod(folder, 0o755);
    await writeFile(config, `${settingsOf(name, port)}${own}`, { mode: 0o644 });
    for (const [file, text] of Object.entries(files)) await writeFile(join(folder, file), text, { mode: 0o644 });
    const isRoot = process.getuid?.() === 0;
    const user = isRoot && name === 'Prometheus' ? { uid: NOBODY, gid: NOBODY } : {};
    if (user.uid !== undefined) await chown(folder, user.uid, user.gid);
    const child = spawn(path, argumentsOf(name, port, config), { stdio: 'ignore', cwd: folder, ...user });
    const server = new SystemServer(child, port, folder);
    await until(`${name} listens`, () => child.exitCode !== null || accepts(port));
    if (child.exitCode !== null) throw new Error(`${name} ended with ${child.exitCode}`);
    return server;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exited = new Promise((resolve) => this.#child.once('exit', resolve));
    if (this.#child.exitCode === null && this.#child.kill('SIGKILL')) await exited;
    await rm(this.#folder, { recursive: true, force: true });
  }
}

function settingsOf(name: ServerProgram, port: number): string {
  // Reports its number of connections and nothing else.
  if (name === 'OpenLDAP') return 'database monitor\naccess to * by * read\n';
  if (name === 'Prometheus') return '';
  return `listener ${port} 127.0.0.1\nallow_anonymous true\npersistence false\n`;
}

function argumentsOf(name: ServerProgram, port: number, config: string): readonly string[] {
  const isRoot = process.getuid?.() === 0;
  if (name === 'Mosquitto') return ['-c', config];
  if (name === 'Prometheus') {
    return [`--config.file=${config}`, '--storage.tsdb.path=data', `--web.listen-address=127.0.0.1:${port}`];
  }
  if (name === 'OpenLDAP') {
    return ['-f', config, '-h', `ldap://127.0.0.1:${port}`, '-d', '0', ...(isRoot ? ['-u', 'nobody'] : [])];
  }
  // When started by root, it switches to `nobody` by itself; `-n` turns that off.
  if (name === 'aiosmtpd')
    return [...(isRoot ? [] : ['-n']), '-l', `127.0.0.1:${port}`, '-c', 'aiosmtpd.handlers.Sink'];
  return ['-l', '127.0.0.1', '-p', String(port), '-U', '0', '-m', '8', ...(isRoot ? ['-u', 'nobody'] : [])];
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
