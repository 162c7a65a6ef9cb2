import { verdictOf } from './connection.js';
import type { Command, Ioredis, Pipeline } from './ioredis-client.js';
import { Hold, type Method, type Read, type ReadAttempt, type ViewParts, viewOf } from './options.js';

/** A view of the primary's client whose reads go to replicas. */
export function readIoredis<C extends object>(primary: C, parts: ViewParts): C {
  const methods = new Reads(primary as unknown as Ioredis, parts).methods();
  return viewOf(primary, (name) => methods.get(name));
}

/** The methods of an ioredis client that may send something to a replica, or must be seen. */
class Reads {
  readonly #primary: Ioredis;
  readonly #parts: ViewParts;
  /** What ioredis's own methods need of a client. They make the command, and hand it to `sendCommand`. */
  readonly #commander: object;
  readonly #hold = new Hold();

  constructor(primary: Ioredis, parts: ViewParts) {
    this.#primary = primary;
    this.#parts = parts;
    this.#commander = {
      // Read on every command: the application may change them.
      options: Object.create(primary.options, { enableAutoPipelining: { value: false } }),
      sendCommand: (command: Command, stream?: unknown) => this.#route(command, stream),
    };
  }

  methods(): ReadonlyMap<string, Method> {
    const own = this.#primary as unknown as Record<string, Method>;
    const methods = new Map<string, Method>();
    const names = [...this.#parts.settings.reads, 'watch', 'unwatch', 'discard', 'exec', 'call'];
    for (const name of [...names, ...names.map((one) => `${one}Buffer`), 'send_command']) {
      methods.set(name, (...args) => own[name]?.apply(this.#commander, args));
    }
    methods.set('sendCommand', (command, stream) => this.#route(command, stream));
    methods.set('pipeline', (...args) => this.#pipeline(this.#primary.pipeline(...args)));
    methods.set('multi', (...args) => {
      const begun = this.#primary.multi(...args) as Pipeline;
      if (begun._queue !== undefined) return this.#pipeline(begun);
      this.#hold.note('multi');
      return begun;
    });
    methods.set('exec', (...args) => {
      this.#hold.note('exec');
      return own.exec?.apply(this.#primary, args);
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

  #route(command: Command, stream: unknown): Promise<unknown> {
    const name = command.name.toLowerCase();
    this.#hold.note(name);
    if (stream !== undefined || !this.#mayRead(name)) return this.#primary.sendCommand(command, stream);
    this.#parts.read(new CommandRead(command, this.#primary));
    return command.promise;
  }

  /** @param name In lower case. */
  #mayRead(name: string): boolean {
    const { condition, options } = this.#primary;
    // The primary was told SELECT: replicas still have the database they were opened with.
    const isMoved = condition?.select !== undefined && condition.select !== (options.db ?? 0);
    return !this.#hold.isHeld && !isMoved && this.#parts.settings.reads.has(name);
  }

  #pipeline(pipeline: Pipeline): Pipeline {
    const exec = pipeline.exec;
    pipeline.exec = (...args) => {
      const queue = pipeline._queue;
      const isRead = queue.length > 0 && queue.every(({ name }) => this.#mayRead(name.toLowerCase()));
      pipeline.redis = isRead ? this.#collector([...queue]) : this.#primary;
      const result = exec.apply(pipeline, args);
      for (const { name } of queue) this.#hold.note(name.toLowerCase());
      return result;
    };
    return pipeline;
  }

  /** A pipeline hands its commands to this one by one, as to a client. */
  #collector(commands: readonly Command[]): object {
    let left = commands.length;
    return {
      options: this.#primary.options,
      sendCommand: (command: Command): Promise<unknown> => {
        if (--left === 0) this.#parts.read(new PipelineRead(commands, this.#primary));
        return command.promise;
      },
    };
  }

  #quit(args: unknown[]): Promise<unknown> {
    const closed = this.#parts.close();
    const both = Promise.all([this.#primary.quit(...args), closed]).then(([answer]) => answer);
    // A callback was told.
    if (typeof args.at(-1) === 'function') both.catch(() => {});
    return both;
  }
}

/** How an attempt of a command ended: with what the server sent to `sent`, unless there is an error. */
type Ended = (error: Error | undefined, raw: unknown, sent: Command) => void;

class CommandRead implements Read {
  readonly #command: Command;
  readonly #primary: Ioredis;
  /** ioredis's own functions: they answer the caller. */
  readonly #resolve: Command['resolve'];
  readonly #reject: Command['reject'];
  #isSent = false;

  constructor(command: Command, primary: Ioredis) {
    this.#command = command;
    this.#primary = primary;
    this.#resolve = command.resolve;
    this.#reject = command.reject;
  }

  send(client: unknown, attempt: ReadAttempt): void {
    this.sendOn(client as Ioredis, (error, raw, sent) => {
      if (error !== undefined) {
        attempt.failed(error);
        return;
      }
      attempt.answered();
      this.answered(raw, sent);
    });
  }

  /** Sends the command itself the first time, then copies: whatever becomes of an attempt that was given up, it answers nobody. */
  sendOn(client: Ioredis, ended: Ended): void {
    const sent = this.#isSent ? copyOf(this.#command) : this.#command;
    this.#isSent = true;
    let isOver = false;
    const end = (error: Error | undefined, raw: unknown): void => {
      if (isOver) return;
      isOver = true;
      if (sent._commandTimeoutTimer !== undefined) {
        clearTimeout(sent._commandTimeoutTimer);
        sent._commandTimeoutTimer = undefined;
      }
      ended(error, raw, sent);
    };
    sent.resolve = (raw) => end(undefined, raw);
    sent.reject = (error) => end(error, undefined);
    const promise = client.sendCommand(sent);
    // That of a subscriber to ioredis's tracing channel.
    if (promise !== sent.promise) promise.catch(() => {});
  }

  answered(raw: unknown, sent: Command): void {
    const command = this.#command;
    if (sent !== command) command.setReplyContext?.(sent);
    this.#resolve(raw);
  }

  failed(error: Error): void {
    this.#reject(error);
  }

  sendToPrimary(): void {
    if (this.#isSent) {
      this.sendOn(this.#primary, (error, raw, sent) => {
        if (error === undefined) this.answered(raw, sent);
        else this.failed(error);
      });
    } else void this.#primary.sendCommand(this.#command).catch(() => {});
  }
}

function copyOf(command: Command): Command {
  // An object that is somebody's prototype is slow: the copy has properties of its own.
  const copy: Command = Object.assign(Object.create(Object.getPrototypeOf(command)), command);
  copy.isTraced = false;
  return copy;
}

/** A pipeline goes to one replica as a whole, also the second time. */
class PipelineRead implements Read {
  readonly #reads: readonly CommandRead[];

  constructor(commands: readonly Command[], primary: Ioredis) {
    this.#reads = commands.map((command) => new CommandRead(command, primary));
  }

  send(client: unknown, attempt: ReadAttempt): void {
    const { stream } = client as Ioredis;
    const answers: Parameters<Ended>[] = [];
    let left = this.#reads.length;
    stream?.cork();
    this.#reads.forEach((read, index) => {
      read.sendOn(client as Ioredis, (...answer) => {
        answers[index] = answer;
        if (--left === 0) this.#ended(answers, attempt);
      });
    });
    stream?.uncork();
  }

  #ended(answers: readonly Parameters<Ended>[], attempt: ReadAttempt): void {
    for (const [error] of answers) {
      if (verdictOf(error) === undefined) continue;
      attempt.failed(error);
      return;
    }
    attempt.answered();
    answers.forEach(([error, raw, sent], index) => {
      if (error === undefined) this.#reads[index]?.answered(raw, sent);
      else this.#reads[index]?.failed(error);
    });
  }

  failed(error: Error): void {
    for (const read of this.#reads) read.failed(error);
  }

  sendToPrimary(): void {
    for (const read of this.#reads) read.sendToPrimary();
  }
}
