import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { freePort } from './free-port.js';

/** What a server counted since it started; as fresh as its last message. */
export interface SocketPodStats {
  /** Connections open now. */
  readonly open: number;
  readonly accepted: number;
  /** Connections whose client said that it is done. */
  readonly ended: number;
  readonly received: string;
}

export interface SocketPodOptions {
  readonly name?: string;
  readonly port?: number;
  readonly tls?: { readonly cert: string; readonly key: string };
  readonly silent?: boolean;
  readonly brief?: boolean;
}

const program = fileURLToPath(new URL('socket-pod.mjs', import.meta.url));

/** A server in a process of its own, on loopback. What it does: `socket-pod.mjs`. */
export class SocketPod implements AsyncDisposable {
  readonly name: string;
  readonly endpoint: { readonly address: string; readonly port: number };
  stats: SocketPodStats = { open: 0, accepted: 0, ended: 0, received: '' };
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;
  readonly #done = new Map<number, () => void>();
  #commands = 0;

  private constructor(name: string, port: number, child: ChildProcess) {
    this.name = name;
    this.endpoint = { address: '127.0.0.1', port };
    this.#child = child;
    this.#exited = new Promise((resolve) => child.once('exit', () => resolve()));
    child.on('message', ({ stats, id }: { stats?: SocketPodStats; id?: number }) => {
      if (stats !== undefined) this.stats = stats;
      if (id !== undefined) this.#done.get(id)?.();
    });
  }

  static async start(options: SocketPodOptions = {}): Promise<SocketPod> {
    const { name = 'pod' } = options;
    const child = fork(program, [JSON.stringify({ port: await freePort(), ...options, name })]);
    const port = await new Promise<number>((resolve, reject) => {
      child.once('message', (message: { port: number }) => resolve(message.port));
      child.once('exit', (code) => reject(new Error(`${name} ended with ${code} before it listened`)));
    });
    return new SocketPod(name, port, child);
  }

  /** `count` of them, named a, b, c … */
  static startAll(count: number, options: SocketPodOptions = {}): Promise<SocketPod[]> {
    const names = Array.from({ length: count }, (_, index) => String.fromCharCode(97 + index));
    return Promise.all(names.map((name) => SocketPod.start({ ...options, name })));
  }

  /** Resolves when the server has done it. What each does: `commands` in `socket-pod.mjs`. */
  command(command: 'end' | 'reset' | 'refuse'): Promise<void> {
    const id = this.#commands++;
    return new Promise((resolve) => {
      this.#done.set(id, resolve);
      this.#child.send({ command, id });
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
