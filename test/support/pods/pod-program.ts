import { fileURLToPath } from 'node:url';
import { freePort } from '../programs/free-port.js';
import { PodChild } from './pod-child.js';

/** A port that was free a moment ago may be taken by the time the server listens, by another test run for example. */
const PORTS_TRIED = 5;

/** Options of every server. */
export interface ServerOptions {
  readonly name?: string;
  /** @defaultValue any free one */
  readonly port?: number;
}

/** A server in its own process, on loopback. */
export interface ServerProcess<Stats, Command extends string> extends AsyncDisposable {
  readonly name: string;
  readonly endpoint: { readonly address: string; readonly port: number };
  /** Its counts since the start, as of its last message. */
  readonly stats: Stats;
  /** Resolves when the server has carried out the command. Each is described under `commands` in its program. */
  command(command: Command, argument?: object): Promise<void>;
  /** Stops or continues the whole process: the kernel still accepts connections, but it answers nothing. */
  freeze(): void;
  thaw(): void;
  /** SIGKILL. Resolves when the process is gone. */
  kill(): Promise<void>;
  /** For the end of a test: its process serves the next one that is started. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * A server program over `pod-host.mjs`. It sends `{ port }` when it listens, `{ stats }` when they change, and
 * `{ stats, id }` when it has carried out the command with that id.
 */
export class PodProgram<Stats, Options extends ServerOptions, Command extends string> {
  readonly #file: string;
  readonly #noStats: Stats;

  /** `file`: next to this one. `noStats`: the value before the first message. */
  constructor(file: string, noStats: Stats) {
    this.#file = fileURLToPath(new URL(file, import.meta.url));
    this.#noStats = noStats;
  }

  async start(options?: Options): Promise<ServerProcess<Stats, Command>> {
    for (let left = options?.port === undefined ? PORTS_TRIED : 1; ; left--) {
      const all = { name: 'pod', port: await freePort(), ...options };
      const child = PodChild.serve(this.#file, all);
      const port = await new Promise<number | undefined>((resolve) => {
        child.on('message', (message: { port?: number }) => message.port !== undefined && resolve(message.port));
        child.on('exit', () => resolve(undefined));
      });
      if (port !== undefined) return new Running(all.name, port, child, this.#noStats);
      if (left <= 1) throw new Error(`${all.name} ended before it listened`);
    }
  }

  /** `count` of them, named a, b, c … */
  startAll(count: number, options?: Options): Promise<ServerProcess<Stats, Command>[]> {
    const names = Array.from({ length: count }, (_, index) => String.fromCharCode(97 + index));
    return Promise.all(names.map((name) => this.start({ ...options, name } as Options)));
  }
}

class Running<Stats, Command extends string> implements ServerProcess<Stats, Command> {
  readonly name: string;
  readonly endpoint: { readonly address: string; readonly port: number };
  stats: Stats;
  readonly #child: PodChild;
  readonly #done = new Map<number, () => void>();
  #commands = 0;

  constructor(name: string, port: number, child: PodChild, stats: Stats) {
    this.name = name;
    this.endpoint = { address: '127.0.0.1', port };
    this.stats = stats;
    this.#child = child;
    child.on('message', ({ stats: told, id }: { stats?: Stats; id?: number }) => {
      if (told !== undefined) this.stats = told;
      if (id !== undefined) this.#done.get(id)?.();
    });
  }

  command(command: Command, argument: object = {}): Promise<void> {
    const id = this.#commands++;
    return new Promise((resolve) => {
      this.#done.set(id, resolve);
      this.#child.send({ command, argument, id });
    });
  }

  freeze(): void {
    this.#child.signal('SIGSTOP');
  }

  thaw(): void {
    this.#child.signal('SIGCONT');
  }

  kill(): Promise<void> {
    return this.#child.kill();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#child.stop();
  }
}
