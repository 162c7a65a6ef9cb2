import { fileURLToPath } from 'node:url';
import { freePort } from '../programs/free-port.js';
import { PodChild } from './pod-child.js';

/** A pod's counts since it started. */
export interface PodStats {
  readonly requests: number;
  readonly connections: number;
  /** Connections open now. */
  readonly open: number;
  /** Connections whose handshake is held. */
  readonly held: number;
  /** Requests that carried an Authorization header. */
  readonly authorized: number;
  /** Requests whose client disconnected before the response was complete. */
  readonly aborted: number;
  /** How often each `x-id` arrived. */
  readonly ids: Readonly<Record<string, number>>;
  readonly hosts: Readonly<Record<string, number>>;
  /** How often each name was asked for in TLS. */
  readonly servernames: Readonly<Record<string, number>>;
}

/** How a pod responds; omitted fields stay as they are. */
export interface PodBehaviour {
  readonly delayMs?: number;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** The Connection header of responses; `default` leaves it, and the Keep-Alive hint, to Node. */
  readonly connection?: 'keep-alive' | 'close' | 'default';
  /** Accepts requests and never answers. */
  readonly hang?: boolean;
  /** Resets the connection of every request. */
  readonly reset?: boolean;
  /** Ends each connection right after its first response, without announcing it. */
  readonly hangUp?: boolean;
  /** Resets each connection at its second request, like a pod that closes too late for anyone to notice before. */
  readonly resetReused?: boolean;
  /** After how long an idle connection is closed, in ms; 0 = never. */
  readonly idleMs?: number;
}

export interface PodOptions {
  readonly name?: string;
  /** @defaultValue '127.0.0.1' */
  readonly host?: string;
  /** @defaultValue any free one */
  readonly port?: number;
  readonly tls?: { readonly cert: string; readonly key: string };
  /** HTTP/2 and HTTP/1.1; without `tls` by the client's preface. `only`: without `tls`, and no HTTP/1.1. */
  readonly http2?: boolean | 'only';
  /** Connections the kernel accepts before the process does. With 1 and a frozen process the third one hangs. */
  readonly backlog?: number;
  /** File to which every request with an `x-id` is written on arrival; several pods may share one. */
  readonly journal?: string;
  /** A command to start it with, such as `['ip', 'netns', 'exec', 'other']`. It must become the process it starts. */
  readonly command?: readonly string[];
  /** How long it serves on after SIGTERM. @defaultValue it exits at once */
  readonly graceMs?: number;
  /** HTTP/2: after which every connection gets a GOAWAY. */
  readonly maxAgeMs?: number;
}

/** A port that was free a moment ago may be taken by the time the pod listens, by another test run for example. */
const PORTS_TRIED = 5;

const program = fileURLToPath(new URL('pod-process.mjs', import.meta.url));

/** An HTTP server in its own process, on loopback. Its paths: `pod-process.mjs`. */
export class Pod implements AsyncDisposable {
  readonly name: string;
  readonly host: string;
  readonly port: number;
  /** Resolves when the pod is gone, whatever ended it. */
  readonly exited: Promise<void>;
  readonly #child: PodChild;
  readonly #answers = new Map<number, (result: unknown) => void>();
  #commands = 0;

  private constructor(name: string, host: string, port: number, child: PodChild) {
    this.name = name;
    this.host = host;
    this.port = port;
    this.#child = child;
    this.exited = child.exited;
    child.on('message', (message: { id?: number; result?: unknown }) => {
      if (message.id === undefined) return;
      this.#answers.get(message.id)?.(message.result);
      this.#answers.delete(message.id);
    });
  }

  static async start(options: PodOptions = {}): Promise<Pod> {
    const { name = 'pod', host = '127.0.0.1', command: [execPath = process.execPath, ...before] = [] } = options;
    // Such a process serves no other pod.
    const own = options.command && {
      execPath,
      execArgv: execPath === process.execPath ? before : [...before, process.execPath],
    };
    for (let left = options.port === undefined ? PORTS_TRIED : 1; ; left--) {
      // Other addresses' free ports cannot be known here.
      const wanted = options.port ?? (host.startsWith('127.') ? await freePort([host]) : 0);
      const child = PodChild.serve(program, { ...options, name, port: wanted }, own);
      const port = await new Promise<number | undefined>((resolve, reject) => {
        child.on('message', (message: { listening?: number }) => resolve(message.listening));
        child.on('exit', (code: number) => reject(new Error(`${name} ended with ${code} before it listened`)));
      });
      if (port !== undefined) return new Pod(name, host, port, child);
      await child.kill();
      if (left <= 1) throw new Error(`${name}: port ${wanted} of ${host} is taken`);
    }
  }

  get endpoint(): { readonly address: string; readonly port: number } {
    return { address: this.host, port: this.port };
  }

  get isRunning(): boolean {
    return this.#child.isRunning;
  }

  stats(): Promise<PodStats> {
    return this.#command('stats') as Promise<PodStats>;
  }

  async behave(behaviour: PodBehaviour): Promise<void> {
    await this.#command('behave', behaviour);
  }

  /** Resets every connection (RST). */
  async reset(): Promise<void> {
    await this.#command('reset');
  }

  /** Ends every connection (FIN). */
  async end(): Promise<void> {
    await this.#command('end');
  }

  /** Accepts no new connection; open ones continue. */
  async stopListening(): Promise<void> {
    await this.#command('stopListening');
  }

  /** TLS: handshakes of further connections hang; open connections continue. */
  async hold(): Promise<void> {
    await this.#command('hold');
  }

  /** HTTP/2: GOAWAY on every session. */
  async goaway(): Promise<void> {
    await this.#command('goaway');
  }

  /** HTTP/2: accepts no more connections, and says that only the first request of each was processed. */
  async refuse(): Promise<void> {
    await this.#command('refuse');
  }

  /** Stops or continues the whole process: the kernel still accepts connections, but it answers nothing. */
  freeze(): void {
    this.#child.signal('SIGSTOP');
  }

  thaw(): void {
    this.#child.signal('SIGCONT');
  }

  /** SIGTERM: see `graceMs`. */
  terminate(): void {
    this.#child.signal('SIGTERM');
  }

  /** SIGKILL. Resolves when the process is gone. */
  kill(): Promise<void> {
    return this.#child.kill();
  }

  /** For the end of a test: its connections are reset and its port is free; the process serves the next pod that is started. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#child.stop();
  }

  #command(command: string, argument?: unknown): Promise<unknown> {
    const id = this.#commands++;
    return new Promise((resolve, reject) => {
      this.#answers.set(id, resolve);
      this.#child.send({ id, command, argument }, (error) => {
        if (error) reject(error);
      });
    });
  }
}

/** The pods of a Service, named pod-0, pod-1 … */
export class Pods implements AsyncDisposable {
  readonly all: Pod[];
  /** As `all`, from which a test may take some out. */
  readonly #started: readonly Pod[];

  private constructor(all: Pod[]) {
    this.all = all;
    this.#started = [...all];
  }

  static async start(count: number, options: Omit<PodOptions, 'name' | 'port'> = {}): Promise<Pods> {
    const names = Array.from({ length: count }, (_, index) => `pod-${index}`);
    return new Pods(await Promise.all(names.map((name) => Pod.start({ ...options, name }))));
  }

  get endpoints(): { readonly address: string; readonly port: number }[] {
    return this.all.map(({ endpoint }) => endpoint);
  }

  at(index: number): Pod {
    const pod = this.all[index];
    if (pod === undefined) throw new Error(`there is no pod ${index}`);
    return pod;
  }

  stats(): Promise<PodStats[]> {
    return Promise.all(this.all.map((pod) => pod.stats()));
  }

  /** Sum of one count over all pods. */
  async total(count: 'requests' | 'connections' | 'open' | 'authorized' | 'aborted'): Promise<number> {
    return (await this.stats()).reduce((sum, stats) => sum + stats[count], 0);
  }

  /** How often each `x-id` arrived, over all pods. */
  async ids(): Promise<Record<string, number>> {
    const ids: Record<string, number> = {};
    for (const stats of await this.stats()) {
      for (const [id, times] of Object.entries(stats.ids)) ids[id] = (ids[id] ?? 0) + times;
    }
    return ids;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#started, ...this.all].map((pod) => pod[Symbol.asyncDispose]()));
  }
}
