import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { freePort } from './free-port.js';

/** What a server counted since it started; as fresh as its last message. */
export interface RSocketPodStats {
  /** Connections open now. */
  readonly open: number;
  /** Requests that wait for `release`. */
  readonly held: number;
  /** By type. */
  readonly requests: Readonly<Record<string, number>>;
  /** Of each request that came. */
  readonly data: readonly string[];
  /** Of each METADATA_PUSH frame. */
  readonly pushed: readonly string[];
  /** Payloads of SETUP frames. */
  readonly setups: readonly string[];
}

export interface RSocketPodOptions {
  readonly name?: string;
  /** Takes no request that it has not granted. */
  readonly lease?: boolean;
  /** Refuses every connection. */
  readonly refuse?: boolean;
  readonly tls?: { readonly cert: string; readonly key: string };
}

const program = fileURLToPath(new URL('rsocket-pod.mjs', import.meta.url));

/** An RSocket server in a process of its own, on loopback. What it answers: `rsocket-pod.mjs`. */
export class RSocketPod implements AsyncDisposable {
  readonly name: string;
  readonly endpoint: { readonly address: string; readonly port: number };
  stats: RSocketPodStats = { open: 0, held: 0, requests: {}, data: [], pushed: [], setups: [] };
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;
  readonly #done = new Map<number, () => void>();
  #commands = 0;

  private constructor(name: string, port: number, child: ChildProcess) {
    this.name = name;
    this.endpoint = { address: '127.0.0.1', port };
    this.#child = child;
    this.#exited = new Promise((resolve) => child.once('exit', () => resolve()));
    child.on('message', ({ stats, id }: { stats?: RSocketPodStats; id?: number }) => {
      if (stats !== undefined) this.stats = stats;
      if (id !== undefined) this.#done.get(id)?.();
    });
  }

  static async start(options: RSocketPodOptions = {}): Promise<RSocketPod> {
    const { name = 'pod' } = options;
    const child = fork(program, [JSON.stringify({ ...options, name, port: await freePort() })]);
    const port = await new Promise<number>((resolve, reject) => {
      child.once('message', (message: { port: number }) => resolve(message.port));
      child.once('exit', (code) => reject(new Error(`${name} ended with ${code} before it listened`)));
    });
    return new RSocketPod(name, port, child);
  }

  /** So many of them, named a, b, c … */
  static startAll(count: number, options: RSocketPodOptions = {}): Promise<RSocketPod[]> {
    const names = Array.from({ length: count }, (_, index) => String.fromCharCode(97 + index));
    return Promise.all(names.map((name) => RSocketPod.start({ ...options, name })));
  }

  /** Resolves when the server has done it. What each does: `commands` in `rsocket-pod.mjs`. */
  command(command: 'release' | 'grant' | 'leave' | 'end' | 'reset', argument: object = {}): Promise<void> {
    const id = this.#commands++;
    return new Promise((resolve) => {
      this.#done.set(id, resolve);
      this.#child.send({ command, argument, id });
    });
  }

  /** Stops or continues the whole process: its kernel still accepts, it answers nothing. */
  freeze(): void {
    this.#child.kill('SIGSTOP');
  }

  thaw(): void {
    this.#child.kill('SIGCONT');
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
