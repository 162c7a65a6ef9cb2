import { type ChildProcess, type ForkOptions, fork } from 'node:child_process';

/** Processes whose pod was stopped, the last one at the end. */
const idle: { readonly program: string; readonly child: ChildProcess }[] = [];

/** As many as most test files have at once, each about 50 MB. */
const IDLE_AT_MOST = 12;

/**
 * The process of one pod (`pod-host.mjs`). Once the pod is stopped, its process serves the next pod of that program: as fresh as
 * another process, without the time that one takes to start.
 */
export class PodChild {
  /** Resolves when the pod is gone, whatever ended it. */
  readonly exited: Promise<void>;
  readonly #program: string;
  readonly #child: ChildProcess;
  readonly #undo: (() => void)[] = [];
  #canServeAgain: boolean;
  #stopping: Promise<void> | undefined;
  /** Its process may serve another pod. */
  #isOver = false;
  #gone: () => void = () => {};

  private constructor(program: string, child: ChildProcess, canServeAgain: boolean) {
    this.#program = program;
    this.#child = child;
    this.#canServeAgain = canServeAgain;
    this.exited = new Promise((resolve) => {
      this.#gone = resolve;
    });
    this.on('exit', this.#gone);
  }

  /** `forked`: how to start a process that serves no other pod. */
  static serve(program: string, options: object, forked?: ForkOptions): PodChild {
    const used = forked === undefined ? takeIdle(program) : undefined;
    const child = used ?? fork(program, [JSON.stringify(options)], { execArgv: [], ...forked });
    used?.send({ serve: options });
    return new PodChild(program, child, forked === undefined);
  }

  get isRunning(): boolean {
    return !this.#isOver && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  on<Event extends 'message' | 'exit'>(event: Event, listener: (argument: never) => void): void {
    const listen = listener as (...args: unknown[]) => void;
    this.#child.on(event, listen);
    this.#undo.push(() => this.#child.off(event, listen));
  }

  send(message: object, sent?: (error: Error | null) => void): void {
    this.#child.send(message, sent);
  }

  /** A process that was told to end serves no further pod. */
  signal(name: NodeJS.Signals): void {
    if (this.#isOver) return;
    if (name === 'SIGTERM' || name === 'SIGKILL') this.#canServeAgain = false;
    this.#child.kill(name);
  }

  /** SIGKILL. */
  async kill(): Promise<void> {
    if (!this.isRunning) return;
    this.signal('SIGKILL');
    await this.exited;
  }

  /** The pod is gone: its connections are reset and its port is free. */
  stop(): Promise<void> {
    this.#stopping ??= this.#canServeAgain && this.isRunning ? this.#handOver() : this.kill();
    return this.#stopping;
  }

  async #handOver(): Promise<void> {
    this.#child.kill('SIGCONT');
    const isStopped = await new Promise<boolean>((resolve) => {
      this.on('message', ({ stopped }: { readonly stopped?: true }) => stopped && resolve(true));
      this.on('exit', () => resolve(false));
      this.send({ stop: true }, (error) => error && resolve(false));
    });
    if (!isStopped || !this.#canServeAgain) return this.kill();
    for (const undo of this.#undo) undo();
    this.#isOver = true;
    this.#gone();
    keepIdle(this.#program, this.#child);
  }
}

function takeIdle(program: string): ChildProcess | undefined {
  for (;;) {
    const at = idle.findLastIndex((one) => one.program === program);
    if (at === -1) return undefined;
    const [{ child }] = idle.splice(at, 1) as [(typeof idle)[number]];
    if (!child.connected) continue;
    child.ref();
    child.channel?.ref();
    return child;
  }
}

function keepIdle(program: string, child: ChildProcess): void {
  // A program that has nothing else to do ends, and they end with it.
  child.unref();
  child.channel?.unref();
  idle.push({ program, child });
  if (idle.length > IDLE_AT_MOST) idle.shift()?.child.disconnect();
}
