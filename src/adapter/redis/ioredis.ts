import type { EventEmitter } from 'node:events';
import { isIP, type Socket } from 'node:net';
import { type ConnectionOptions, checkServerIdentity } from 'node:tls';
import type { Endpoint } from '../../index.js';
import { asError } from '../kit/index.js';
import { verdictOf } from './call.js';
import type { OpenClient, Read, ReplicaClient } from './connection.js';
import type { FacadeParts, ReplicasSettings } from './options.js';

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
  /** The state of its connection. */
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
  if (typeof client !== 'object' || client === null) return false;
  const { duplicate, sendCommand, pipeline, options, isCluster } = client as Record<string, unknown>;
  const isFunction = (value: unknown): boolean => typeof value === 'function';
  return isFunction(duplicate) && isFunction(sendCommand) && isFunction(pipeline) && !!options && isCluster !== true;
}

/** Makes clients of replicas as the primary's client makes duplicates of itself. */
export function openIoredis(given: unknown, { service, clientOptions }: ReplicasSettings): OpenClient {
  const primary = given as Ioredis;
  return ({ address: host, port = service.port ?? 6379 }: Endpoint, ended) => {
    const own: { readonly tls?: unknown } = clientOptions;
    const tls = own.tls ?? primary.options.tls;
    const client = primary.duplicate({
      ...clientOptions,
      host,
      port,
      db: primary.options.db,
      ...(tls ? { tls: tlsOf(service.host, tls) } : {}),
      path: undefined,
      sentinels: null,
      Connector: undefined,
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
      enableReadyCheck: true,
      maxLoadingRetryTime: 500,
    });
    return new IoredisClient(client, ended);
  };
}

/** The certificate must name the Service, not the pod that is dialed. */
function tlsOf(name: string, given: unknown): ConnectionOptions {
  // An undefined option would take the place of ours.
  const defined = Object.entries(typeof given === 'object' ? (given as object) : {}).filter(
    ([, value]) => value !== undefined,
  );
  const options: ConnectionOptions = Object.fromEntries(defined);
  return {
    checkServerIdentity: (_dialled, certificate) => checkServerIdentity(options.servername ?? name, certificate),
    ...(isIP(name) === 0 && { servername: name }),
    ...options,
  };
}

class IoredisClient implements ReplicaClient {
  readonly client: Ioredis;
  #failure: Error | undefined;
  #isClosing = false;

  constructor(client: Ioredis, ended: (error: Error | undefined) => void) {
    this.client = client;
    // Without a listener ioredis writes to the console.
    client.on('error', (error: Error) => {
      this.#failure ??= error;
    });
    client.once('end', () => {
      ended(this.#isClosing ? undefined : (this.#failure ?? new Error('it closed the connection')));
    });
  }

  async connect(): Promise<void> {
    try {
      await this.client.connect();
    } catch (error) {
      throw this.#failure ?? error;
    }
  }

  info(): Promise<string> {
    return this.client.info('replication');
  }

  busy(isBusy: boolean): void {
    if (isBusy) this.client.stream?.ref();
    else this.client.stream?.unref();
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

/**
 * A view of the primary's client whose reads go to replicas. All else is the primary's: state, events, commands, and what the
 * application changes about it.
 */
export function readIoredis<C extends object>(given: C, parts: FacadeParts): C {
  const primary = given as unknown as Ioredis;
  const methods = new Reads(primary, parts).methods();
  const bound = new WeakMap<object, unknown>();
  const facade: object = new Proxy(primary, {
    get(_, property) {
      const value: unknown = Reflect.get(primary, property, primary);
      if (typeof value !== 'function' || property === 'constructor') return value;
      const own = typeof property === 'string' ? methods.get(property) : undefined;
      if (own !== undefined) return own;
      let method = bound.get(value);
      if (method === undefined) {
        method = (...args: unknown[]) => {
          const result: unknown = value.apply(primary, args);
          return result === primary ? facade : result;
        };
        bound.set(value, method);
      }
      return method;
    },
  });
  return facade as C;
}

type Method = (...args: unknown[]) => unknown;

/** Begins and ends the time in which a connection must see all commands. */
const HOLDS: ReadonlySet<string> = new Set(['watch', 'multi']);
const RELEASES: ReadonlySet<string> = new Set(['exec', 'discard', 'unwatch']);

/** The methods of an ioredis client that may send something to a replica, or must be seen. */
class Reads {
  readonly #primary: Ioredis;
  readonly #parts: FacadeParts;
  /** What ioredis's own methods need of a client. They make the command, and hand it to `sendCommand`. */
  readonly #commander: object;
  /** Between WATCH, or MULTI, and EXEC: the answers have to come from the connection that watches. */
  #isHeld = false;

  constructor(primary: Ioredis, parts: FacadeParts) {
    this.#primary = primary;
    this.#parts = parts;
    this.#commander = {
      // Read on every command: the application may change them.
      options: Object.create(primary.options, { enableAutoPipelining: { value: false } }),
      sendCommand: (command: Command, stream?: unknown) => this.#route(command, stream),
    };
  }

  methods(): ReadonlyMap<string, Method> {
    const methods = new Map<string, Method>();
    const made = (name: string): void => {
      const method = (...args: unknown[]): unknown =>
        (this.#primary as unknown as Record<string, Method>)[name]?.apply(this.#commander, args);
      methods.set(name, method);
    };
    for (const name of [...this.#parts.settings.reads, ...HOLDS, ...RELEASES]) {
      made(name);
      made(`${name}Buffer`);
    }
    for (const name of ['call', 'callBuffer', 'send_command']) made(name);
    methods.set('sendCommand', (command, stream) => this.#route(command as Command, stream));
    methods.set('pipeline', (...args) => this.#pipeline(this.#primary.pipeline(...args)));
    methods.set('multi', (...args) => this.#multi(args));
    methods.set('exec', (...args) => this.#exec(args));
    methods.set('quit', (...args) => this.#quit(args));
    for (const name of ['disconnect', 'end']) methods.set(name, (reconnect) => this.#disconnect(reconnect === true));
    return methods;
  }

  #route(command: Command, stream: unknown): Promise<unknown> {
    this.#note(command);
    if (stream !== undefined || !this.#mayRead(command)) return this.#primary.sendCommand(command, stream);
    this.#parts.read(new CommandRead(command, this.#primary));
    return command.promise;
  }

  #mayRead({ name }: Command): boolean {
    const { condition, options } = this.#primary;
    // The primary was told SELECT: replicas still have the database they were opened with.
    const isMoved = condition?.select !== undefined && condition.select !== (options.db ?? 0);
    return !this.#isHeld && !isMoved && this.#parts.settings.reads.has(name.toLowerCase());
  }

  #note({ name }: Command): void {
    const lower = name.toLowerCase();
    if (HOLDS.has(lower)) this.#isHeld = true;
    else if (RELEASES.has(lower)) this.#isHeld = false;
  }

  #pipeline(pipeline: Pipeline): Pipeline {
    const exec = pipeline.exec;
    pipeline.exec = (...args) => {
      const queue = pipeline._queue;
      const isRead = queue.length > 0 && queue.every((command) => this.#mayRead(command));
      pipeline.redis = isRead ? this.#collector([...queue]) : this.#primary;
      const result = exec.apply(pipeline, args);
      for (const command of queue) this.#note(command);
      return result;
    };
    return pipeline;
  }

  /** A pipeline hands its commands to this one by one, as to a client. */
  #collector(commands: readonly Command[]): object {
    let left = commands.length;
    const sendCommand = (command: Command): Promise<unknown> => {
      if (--left === 0) this.#parts.read(new PipelineRead(commands, this.#primary));
      return command.promise;
    };
    return { options: this.#primary.options, sendCommand };
  }

  #multi(args: unknown[]): unknown {
    const begun = this.#primary.multi(...args);
    if (typeof (begun as Pipeline)._queue === 'object') return this.#pipeline(begun as Pipeline);
    this.#isHeld = true;
    return begun;
  }

  #exec(args: unknown[]): unknown {
    this.#isHeld = false;
    return (this.#primary as unknown as Record<string, Method>).exec?.(...args);
  }

  #quit(args: unknown[]): Promise<unknown> {
    const closed = this.#parts.close();
    const both = Promise.all([this.#primary.quit(...args), closed]).then(([answer]) => answer);
    // A callback was told.
    if (typeof args.at(-1) === 'function') both.catch(() => {});
    return both;
  }

  #disconnect(reconnect: boolean): void {
    if (!reconnect) void this.#parts.close(AbortSignal.abort());
    this.#primary.disconnect(reconnect);
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

/** What one command of a pipeline was answered. */
interface Answer {
  readonly copy: Command;
  readonly raw?: unknown;
  readonly error?: Error;
}

/** A pipeline goes to one replica as a whole, also the second time. */
class PipelineRead implements Read {
  readonly #commands: readonly Command[];
  readonly #primary: Ioredis;

  constructor(commands: readonly Command[], primary: Ioredis) {
    this.#commands = commands;
    this.#primary = primary;
  }

  async send(client: unknown): Promise<readonly Answer[]> {
    const replica = client as Ioredis;
    const { stream } = replica;
    stream?.cork();
    const sent = this.#commands.map(async (command): Promise<Answer> => {
      const copy = copyOf(command);
      try {
        return { copy, raw: await replica.sendCommand(copy) };
      } catch (cause) {
        return { copy, error: asError(cause) };
      }
    });
    stream?.uncork();
    const answers = await Promise.all(sent);
    const unanswered = answers.find(({ error }) => error !== undefined && verdictOf(error) !== undefined);
    if (unanswered !== undefined) throw unanswered.error;
    return answers;
  }

  answered(answers: unknown): void {
    this.#commands.forEach((command, index) => {
      const { copy, raw, error } = (answers as readonly Answer[])[index] as Answer;
      command.setReplyContext?.(copy);
      if (error === undefined) command.resolve(raw);
      else command.reject(error);
    });
  }

  failed(error: Error): void {
    for (const command of this.#commands) command.reject(error);
  }

  sendToPrimary(): void {
    for (const command of this.#commands) void this.#primary.sendCommand(command).catch(() => {});
  }
}
