import { fileURLToPath } from 'node:url';
import { PodChild } from '../../../support/pods/pod-child.js';
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
  readonly #child: PodChild;
  readonly exited: Promise<void>;
  readonly #answers = new Map<number, (stats: PodStats) => void>();
  #lastId = 0;

  private constructor(name: string, host: string, port: number, child: PodChild) {
    this.name = name;
    this.host = host;
    this.port = port;
    this.#child = child;
    this.exited = child.exited;
    child.on('message', ({ id, stats }: { readonly id: number; readonly stats: PodStats }) => {
      this.#answers.get(id)?.(stats);
      this.#answers.delete(id);
    });
  }

  static async start(name: string, options: PodOptions = {}): Promise<Pod> {
    const port = options.port ?? (await freePort([options.host ?? '127.0.0.1']));
    const child = PodChild.serve(program, { name, ...options, port });
    const bound = await new Promise<number>((resolve, reject) => {
      child.on('message', (message: { port: number }) => resolve(message.port));
      child.on('exit', () => reject(new Error(`${name} ended before it listened`)));
    });
    return new Pod(name, options.host ?? '127.0.0.1', bound, child);
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
    this.#child.signal('SIGTERM');
  }

  kill(): void {
    this.#child.signal('SIGKILL');
  }

  /** For the end of a test: its connections end and its port is free; the process serves the next pod that is started. */
  stop(): Promise<void> {
    return this.#child.stop();
  }

  #ask(message: object): Promise<PodStats> {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#answers.set(id, resolve);
      void this.exited.then(() => reject(new Error(`${this.name} is gone`)));
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
