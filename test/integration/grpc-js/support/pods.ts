import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../../support/programs/free-port.js';

const program = fileURLToPath(new URL('pod.mjs', import.meta.url));

/** How a pod behaves, from the moment it is told. */
export interface PodBehaviour {
  readonly delayMs?: number;
  readonly hang?: boolean;
  /** Status code of every answer. */
  readonly fail?: number | undefined;
  readonly pushbackMs?: number;
  /** Trailer `endpoint-load-metrics-bin`, as base64. */
  readonly load?: string;
  /** What its health service answers; `hang`: nothing. */
  readonly health?: number | 'hang';
}

export interface PodStats {
  /** Accepted since the start, and open now. */
  readonly connections: number;
  readonly open: number;
  readonly calls: number;
  readonly unary: number;
  readonly streams: number;
  /** Calls that have not ended. */
  readonly running: number;
  readonly checks: number;
}

export interface PodOptions {
  /** @defaultValue '127.0.0.1' */
  readonly host?: string;
  readonly port?: number;
  /** How long it serves on after SIGTERM before it says GOAWAY. */
  readonly graceMs?: number;
  /** How long after GOAWAY it exits with calls still running. */
  readonly cutMs?: number;
  /** PEM. */
  readonly tls?: { readonly key: string; readonly cert: string };
  readonly maxStreams?: number;
  /** After which every connection gets a GOAWAY, ± 10 %, and how long its calls may take after that. */
  readonly maxAgeMs?: number;
  readonly maxAgeGraceMs?: number;
  readonly noHealth?: boolean;
}

/** A gRPC server in a process of its own. */
export class Pod {
  readonly name: string;
  readonly host: string;
  readonly port: number;
  readonly #child: ChildProcess;
  readonly exited: Promise<void>;
  #lastId = 0;

  private constructor(name: string, host: string, port: number, child: ChildProcess) {
    this.name = name;
    this.host = host;
    this.port = port;
    this.#child = child;
    this.exited = child.exitCode === null ? once(child, 'exit').then(() => {}) : Promise.resolve();
  }

  static async start(name: string, options: PodOptions = {}): Promise<Pod> {
    const port = options.port ?? (await freePort([options.host ?? '127.0.0.1']));
    const child = fork(program, [JSON.stringify({ name, ...options, port })], { stdio: 'inherit', execArgv: [] });
    const [ready] = (await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(() => {
        throw new Error(`${name} ended before it listened`);
      }),
    ])) as [{ port: number }];
    return new Pod(name, options.host ?? '127.0.0.1', ready.port, child);
  }

  async set(behaviour: PodBehaviour): Promise<void> {
    await this.#ask({ set: behaviour });
  }

  async stats(): Promise<PodStats> {
    return this.#ask({});
  }

  get endpoint(): { readonly address: string; readonly port: number } {
    return { address: this.host, port: this.port };
  }

  terminate(): void {
    this.#child.kill('SIGTERM');
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      this.kill();
      await this.exited;
    }
  }

  #ask(message: object): Promise<PodStats> {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      const onMessage = (answer: { id?: number; stats: PodStats }): void => {
        if (answer.id !== id) return;
        this.#child.off('message', onMessage);
        this.#child.off('exit', onExit);
        resolve(answer.stats);
      };
      const onExit = (): void => reject(new Error(`${this.name} is gone`));
      this.#child.on('message', onMessage);
      this.#child.once('exit', onExit);
      this.#child.send({ ...message, id });
    });
  }
}

/** Several pods that are stopped together. */
export class Pods implements AsyncDisposable {
  readonly all: Pod[] = [];

  /** Starts `count` pods, named `pod-0` and so on. */
  async start(count: number, options: PodOptions = {}): Promise<Pod[]> {
    const started = await Promise.all(
      Array.from({ length: count }, (_, index) => Pod.start(`pod-${this.all.length + index}`, options)),
    );
    this.all.push(...started);
    return started;
  }

  get endpoints(): { readonly address: string; readonly port: number }[] {
    return this.all.map(({ endpoint }) => endpoint);
  }

  stats(): Promise<PodStats[]> {
    return Promise.all(this.all.map((pod) => pod.stats()));
  }

  async stop(): Promise<void> {
    await Promise.all(this.all.map((pod) => pod.stop()));
    this.all.length = 0;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}
