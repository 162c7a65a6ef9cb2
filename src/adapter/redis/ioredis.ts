import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { asError, serviceTls } from '../kit/index.js';
import { type OpenClient, type ServerClient, verdictOf } from './connection.js';
import { Hold, type Method, type Read, type ReplicasSettings, type ViewParts, viewOf } from './options.js';

/** The part of an ioredis command that evenkeel uses. */
interface Command {
  readonly name: string;
  readonly promise: Promise<unknown>;
  /** Takes what the server sent, which it decodes and transforms. */
  resolve(raw: unknown): void;
  reject(error: Error): void;
  initPromise(): void;
  transformReply(raw: unknown): unknown;
  /** ioredis 6: how the server sent it. */
  setReplyContext?(context: unknown): void;
}

/** The part of an ioredis pipeline, or transaction, that evenkeel uses. */
interface Pipeline {
  redis: unknown;
  readonly _queue: readonly Command[];
  exec(...given: unknown[]): Promise<unknown>;
}

/** The part of an ioredis client that evenkeel uses. */
interface Ioredis extends EventEmitter {
  readonly options: Record<string, unknown>;
  readonly stream?: Socket;
  readonly condition?: { readonly select?: number };
  sendCommand(command: Command, stream?: unknown): Promise<unknown>;
  connect(): Promise<void>;
  disconnect(reconnect?: boolean): void;
  duplicate(override: object): Ioredis;
  pipeline(...given: unknown[]): Pipeline;
  multi(...given: unknown[]): Pipeline | Promise<unknown>;
  quit(...given: unknown[]): Promise<unknown>;
  info(section: string): Promise<string>;
}

/** Whether this is a client of ioredis for one server. A Cluster has replicas of its own: `scaleReads`. */
export function isIoredis(client: unknown): boolean {
  const { duplicate, sendCommand, pipeline, options, isCluster } = Object(client) as Record<string, unknown>;
  const isMethod = (one: unknown): boolean => typeof one === 'function';
  return [duplicate, sendCommand, pipeline].every(isMethod) && !!options && isCluster !== true;
}

/** Makes clients as the primary's client makes duplicates of itself. */
export function openIoredis(given: unknown, { service }: ReplicasSettings, own: { tls?: unknown }): OpenClient {
  const primary = given as Ioredis;
  return (endpoint, ended) => {
    const tls = own.tls ?? primary.options.tls;
    const replica = endpoint && {
      ...own,
      host: endpoint.address,
      port: endpoint.port ?? service.port ?? 6379,
      ...(tls ? { tls: serviceTls(service.host, typeof tls === 'object' ? tls : {}) } : {}),
      path: undefined,
      sentinels: null,
      Connector: undefined,
    };
    const client = primary.duplicate({
      ...replica,
      db: primary.options.db,
      monitor: false,
      lazyConnect: true,
      // The balancer connects again, and decides what is sent again.
      retryStrategy: null,
      reconnectOnError: null,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      enableAutoPipelining: false,
      // A replica that loads its data is not ready. ioredis asks again after this, in ms.
      maxLoadingRetryTime: 500,
    });
    return new IoredisClient(client, ended);
  };
}

class IoredisClient implements ServerClient {
  readonly client: Ioredis;
  #failure: Error | undefined;
  #isClosing = false;

  constructor(client: Ioredis, ended: (error: Error | undefined) => void) {
    this.client = client;
    // Without a listener ioredis writes to the console.
    client.on('error', (error: Error) => {
      this.#failure ??= error;
    });
    client.once('end', () => ended(this.#isClosing ? undefined : this.#failure));
  }

  connect(): Promise<void> {
    return this.client.connect().catch((error) => {
      throw this.#failure ?? error;
    });
  }

  info(section: string): Promise<string> {
    return this.client.info(section);
  }

  get received(): number {
    return this.client.stream?.bytesRead ?? 0;
  }

  busy(isBusy: boolean): void {
    this.client.stream?.[isBusy ? 'ref' : 'unref']();
  }

  finish(): void {
    this.#isClosing = true;
    this.client.disconnect();
  }

  cut(): void {
    this.client.disconnect();
    this.client.stream?.destroy();
  }
}

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
    this.#hold.note(command.name.toLowerCase());
    if (stream !== undefined || !this.#mayRead(command)) return this.#primary.sendCommand(command, stream);
    this.#parts.read(new CommandRead(command, this.#primary));
    return command.promise;
  }

  #mayRead({ name }: Command): boolean {
    const { condition, options } = this.#primary;
    // The primary was told SELECT: replicas still have the database they were opened with.
    const isMoved = condition?.select !== undefined && condition.select !== (options.db ?? 0);
    return !this.#hold.isHeld && !isMoved && this.#parts.settings.reads.has(name.toLowerCase());
  }

  #pipeline(pipeline: Pipeline): Pipeline {
    const exec = pipeline.exec;
    pipeline.exec = (...args) => {
      const queue = pipeline._queue;
      const isRead = queue.length > 0 && queue.every((command) => this.#mayRead(command));
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

/** A copy that may be lost: the command itself is answered once, whatever becomes of its copies. */
function copyOf(command: Command): Command {
  // An object that is somebody's prototype is slow: the copy has properties of its own.
  const blank = Object.create(Object.getPrototypeOf(command)) as Command & { callback?: unknown; errorStack?: unknown };
  const copy = Object.assign(blank, command);
  copy.callback = undefined;
  copy.errorStack = undefined;
  copy.transformReply = (raw) => raw;
  copy.initPromise();
  return copy;
}

class CommandRead implements Read {
  readonly #command: Command;
  readonly #primary: Ioredis;
  #copy: Command | undefined;

  constructor(command: Command, primary: Ioredis) {
    this.#command = command;
    this.#primary = primary;
  }

  send(client: unknown): Promise<unknown> {
    this.#copy = copyOf(this.#command);
    return (client as Ioredis).sendCommand(this.#copy);
  }

  answered(raw: unknown): void {
    this.#command.setReplyContext?.(this.#copy);
    this.#command.resolve(raw);
  }

  failed(error: Error): void {
    this.#command.reject(error);
  }

  sendToPrimary(): void {
    void this.#primary.sendCommand(this.#command).catch(() => {});
  }
}

/** A pipeline goes to one replica as a whole, also the second time. */
class PipelineRead implements Read {
  readonly #reads: readonly CommandRead[];

  constructor(commands: readonly Command[], primary: Ioredis) {
    this.#reads = commands.map((command) => new CommandRead(command, primary));
  }

  async send(client: unknown): Promise<readonly PromiseSettledResult<unknown>[]> {
    const { stream } = client as Ioredis;
    stream?.cork();
    const sent = this.#reads.map((read) => read.send(client));
    stream?.uncork();
    const answers = await Promise.allSettled(sent);
    for (const { reason } of answers as { reason?: unknown }[]) if (verdictOf(reason) !== undefined) throw reason;
    return answers;
  }

  answered(answers: unknown): void {
    (answers as readonly PromiseSettledResult<unknown>[]).forEach((answer, index) => {
      if (answer.status === 'fulfilled') this.#reads[index]?.answered(answer.value);
      else this.#reads[index]?.failed(asError(answer.reason));
    });
  }

  failed(error: Error): void {
    for (const read of this.#reads) read.failed(error);
  }

  sendToPrimary(): void {
    for (const read of this.#reads) read.sendToPrimary();
  }
}
