import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** What a server counted since it started; as fresh as its last message. */
export interface WsPodStats {
  /** WebSockets open now. */
  readonly open: number;
  readonly accepted: number;
  /** By close code; with socket.io by its reason. */
  readonly closes: Readonly<Record<string, number>>;
  /** When WebSockets came, in ms since the epoch. */
  readonly arrivals: readonly number[];
  /** Connections open now. */
  readonly sockets: number;
}

export interface WsPodOptions {
  readonly name?: string;
  readonly kind?: 'ws' | 'socket.io' | 'graphql';
  readonly tls?: { readonly cert: string; readonly key: string };
}

const program = fileURLToPath(new URL('ws-pod.mjs', import.meta.url));

/** A WebSocket server in a process of its own, on loopback. What it does: `ws-pod.mjs`. */
export class WsPod implements AsyncDisposable {
  readonly name: string;
  readonly endpoint: { readonly address: string; readonly port: number };
  stats: WsPodStats = { open: 0, accepted: 0, closes: {}, arrivals: [], sockets: 0 };
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;
  readonly #done = new Map<number, () => void>();
  #commands = 0;

  private constructor(name: string, port: number, child: ChildProcess) {
    this.name = name;
    this.endpoint = { address: '127.0.0.1', port };
    this.#child = child;
    this.#exited = new Promise((resolve) => child.once('exit', () => resolve()));
    child.on('message', ({ stats, id }: { stats?: WsPodStats; id?: number }) => {
      if (stats !== undefined) this.stats = stats;
      if (id !== undefined) this.#done.get(id)?.();
    });
  }

  static async start(options: WsPodOptions = {}): Promise<WsPod> {
    const { name = 'pod' } = options;
    const child = fork(program, [JSON.stringify({ ...options, name })]);
    const port = await new Promise<number>((resolve, reject) => {
      child.once('message', (message: { port: number }) => resolve(message.port));
      child.once('exit', (code) => reject(new Error(`${name} ended with ${code} before it listened`)));
    });
    return new WsPod(name, port, child);
  }

  /** `count` of them, named a, b, c … */
  static startAll(count: number, options: WsPodOptions = {}): Promise<WsPod[]> {
    const names = Array.from({ length: count }, (_, index) => String.fromCharCode(97 + index));
    return Promise.all(names.map((name) => WsPod.start({ ...options, name })));
  }

  /** Resolves when the server has done it. What each does: `commands` in `ws-pod.mjs`. */
  command(command: 'cut' | 'nothing'): Promise<void> {
    const id = this.#commands++;
    return new Promise((resolve) => {
      this.#done.set(id, resolve);
      this.#child.send({ command, id });
    });
  }

  /** SIGKILL. Resolves when the process is gone. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }
}
