import {
  commandBuilder,
  copyOf,
  type IoredisCommand,
  type IoredisPipeline,
  OneWrite,
  passReplyContext,
  queuedCommands,
  selectedDatabase,
  sendThrough,
  stopTimeout,
} from './internals.js';
import type { Ioredis } from './ioredis-client.js';
import { verdictOf } from './outcome.js';
import { Hold, type Method, type Read, type ReadAttempt, type ViewParts, viewOf } from './view.js';

/** Creates a view of the primary's ioredis client that sends reads to replicas. */
export function readIoredis<C extends object>(primary: C, parts: ViewParts): C {
  const methods = new Reads(primary as unknown as Ioredis, parts).methods();
  return viewOf(primary, (name) => methods.get(name));
}

/** Replaces the methods of an ioredis client that may send a read to a replica, or that decide whether later commands may go there. */
class Reads {
  readonly #primary: Ioredis;
  readonly #parts: ViewParts;
  readonly #builder: object;
  readonly #hold = new Hold();

  constructor(primary: Ioredis, parts: ViewParts) {
    this.#primary = primary;
    this.#parts = parts;
    this.#builder = commandBuilder(primary, (command, stream) => this.#route(command, stream));
  }

  methods(): ReadonlyMap<string, Method> {
    const primaryMethods = this.#primary as Ioredis & Record<string, Method>;
    const methods = new Map<string, Method>();
    const names = [...this.#parts.settings.reads, 'watch', 'unwatch', 'discard', 'exec', 'call'];
    for (const name of [...names, ...names.map((one) => `${one}Buffer`), 'send_command']) {
      methods.set(name, (...args) => primaryMethods[name]?.apply(this.#builder, args));
    }
    methods.set('sendCommand', (command, stream) => this.#route(command, stream));
    methods.set('pipeline', (...args) => this.#pipeline(this.#primary.pipeline(...args)));
    methods.set('multi', (...args) => {
      const begun = this.#primary.multi(...args);
      if (queuedCommands(begun) !== undefined) return this.#pipeline(begun as IoredisPipeline);
      this.#hold.note('multi');
      return begun;
    });
    methods.set('exec', (...args) => {
      this.#hold.note('exec');
      return primaryMethods.exec?.apply(this.#primary, args);
    });
    methods.set('quit', (...args) => this.#quit(args));
    for (const name of ['disconnect', 'end']) {
      methods.set(name, (reconnect = false) => {
        if (!reconnect) void this.#parts.close(AbortSignal.abort());
        this.#primary.disconnect(reconnect);
      });
    }
    return methods;
  }

  #route(command: IoredisCommand, stream: unknown): Promise<unknown> {
    const name = command.name.toLowerCase();
    this.#hold.note(name);
    if (stream !== undefined || !this.#mayRead(name)) return this.#primary.sendCommand(command, stream);
    this.#parts.read(new CommandRead(command, this.#primary));
    return command.promise;
  }

  /** @param name The command in lower case. */
  #mayRead(name: string): boolean {
    const database = selectedDatabase(this.#primary);
    // The application selected another database with SELECT on the primary, while replicas still have the database they were opened with.
    const isMoved = database !== undefined && database !== (this.#primary.options.db ?? 0);
    return !this.#hold.isHeld && !isMoved && this.#parts.settings.reads.has(name);
  }

  #pipeline(pipeline: IoredisPipeline): IoredisPipeline {
    const exec = pipeline.exec;
    pipeline.exec = (...args) => {
      const queue = queuedCommands(pipeline) ?? [];
      const isRead = queue.length > 0 && queue.every(({ name }) => this.#mayRead(name.toLowerCase()));
      sendThrough(pipeline, isRead ? this.#collector([...queue]) : this.#primary);
      const result = exec.apply(pipeline, args);
      for (const { name } of queue) this.#hold.note(name.toLowerCase());
      return result;
    };
    return pipeline;
  }

  /** Collects the commands that a pipeline passes to its client one by one, and sends them together as one read. */
  #collector(commands: readonly IoredisCommand[]): object {
    let commandsLeft = commands.length;
    return {
      options: this.#primary.options,
      sendCommand: (command: IoredisCommand): Promise<unknown> => {
        if (--commandsLeft === 0) this.#parts.read(new PipelineRead(commands, this.#primary));
        return command.promise;
      },
    };
  }

  #quit(args: unknown[]): Promise<unknown> {
    const closed = this.#parts.close();
    const quitResult = Promise.all([this.#primary.quit(...args), closed]).then(([answer]) => answer);
    // With a callback, the callback gets the result, and nobody handles the promise.
    if (typeof args.at(-1) === 'function') quitResult.catch(() => {});
    return quitResult;
  }
}

class CommandRead implements Read {
  readonly #command: IoredisCommand;
  readonly #primary: Ioredis;
  /** ioredis's own functions that settle the command's promise for its caller. */
  readonly #resolve: IoredisCommand['resolve'];
  readonly #reject: IoredisCommand['reject'];
  /** How many attempts of the read were made, and the number of the running one; 0 means none runs. */
  #made = 0;
  #running = 0;
  /** The error with which the last attempt ended; undefined if the server answered. */
  error: Error | undefined;
  #raw: unknown;
  #sent: IoredisCommand;

  constructor(command: IoredisCommand, primary: Ioredis) {
    this.#command = command;
    this.#sent = command;
    this.#primary = primary;
    this.#resolve = command.resolve;
    this.#reject = command.reject;
  }

  send(client: unknown, attempt: ReadAttempt): void {
    this.sendOn(client as Ioredis, () => {
      if (this.error !== undefined) {
        attempt.failed(this.error);
        return;
      }
      attempt.answered();
      this.answer();
    });
  }

  /**
   * Sends the command itself at the first attempt, and copies of it later: an attempt that was given up must not settle the caller's
   * promise.
   */
  sendOn(client: Ioredis, ended: () => void, stream?: unknown): void {
    // Each attempt may take a command's whole timeout, so the timeout of the previous attempt is stopped.
    stopTimeout(this.#sent);
    const number = ++this.#made;
    const sent = number === 1 ? this.#command : copyOf(this.#command);
    this.#running = number;
    this.#sent = sent;
    sent.resolve = (raw) => {
      if (this.#end(number, undefined, raw)) ended();
    };
    sent.reject = (error) => {
      if (this.#end(number, error, undefined)) ended();
    };
    const promise = client.sendCommand(sent, stream);
    // This promise may not be the command's own, but made by a subscriber to ioredis's tracing channel.
    if (promise !== sent.promise) promise.catch(() => {});
  }

  #end(number: number, error: Error | undefined, raw: unknown): boolean {
    if (this.#running !== number) return false;
    this.#running = 0;
    this.error = error;
    this.#raw = raw;
    stopTimeout(this.#sent);
    return true;
  }

  /** Settles the command's promise with the result of the last attempt. */
  answer(): void {
    const { error } = this;
    if (error !== undefined) {
      this.#reject(error);
      return;
    }
    passReplyContext(this.#command, this.#sent);
    this.#resolve(this.#raw);
  }

  failed(error: Error): void {
    this.#reject(error);
  }

  sendToPrimary(): void {
    if (this.#made > 0) this.sendOn(this.#primary, () => this.answer());
    else void this.#primary.sendCommand(this.#command).catch(() => {});
  }
}

/** Sends all commands of a pipeline to one replica, also when they are repeated. */
class PipelineRead implements Read {
  readonly #reads: readonly CommandRead[];

  constructor(commands: readonly IoredisCommand[], primary: Ioredis) {
    this.#reads = commands.map((command) => new CommandRead(command, primary));
  }

  send(client: unknown, attempt: ReadAttempt): void {
    const redis = client as Ioredis;
    const together = new OneWrite(redis);
    let readsLeft = this.#reads.length;
    const ended = (): void => {
      if (--readsLeft === 0) this.#ended(attempt);
    };
    for (const read of this.#reads) read.sendOn(redis, ended, together);
    together.flush();
  }

  #ended(attempt: ReadAttempt): void {
    for (const { error } of this.#reads) {
      if (error === undefined || verdictOf(error) === undefined) continue;
      attempt.failed(error);
      return;
    }
    attempt.answered();
    for (const read of this.#reads) read.answer();
  }

  failed(error: Error): void {
    for (const read of this.#reads) read.failed(error);
  }

  sendToPrimary(): void {
    for (const read of this.#reads) read.sendToPrimary();
  }
}
