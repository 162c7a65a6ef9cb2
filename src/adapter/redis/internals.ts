/**
 * Every undocumented part of ioredis and node-redis that evenkeel uses. The parts of ioredis were seen in 5.4, 5.11 and 6, those of
 * node-redis in 5.0, 5.12 and 6; the tests run against all of these. Neither library lets an application choose the connection of a
 * command. ioredis declined that (https://github.com/redis/ioredis/issues/387), and a pull request would add it
 * (https://github.com/redis/ioredis/pull/2126); no issue of node-redis was found.
 */
import type { Socket } from 'node:net';
import type { Method } from './view.js';

/** A command as ioredis builds it. ioredis's types have its fields, but its documentation does not. */
export interface IoredisCommand {
  readonly name: string;
  readonly promise: Promise<unknown>;
  /** Resolves the command with the server's raw answer, which ioredis decodes and transforms for the caller. */
  resolve: (raw: unknown) => void;
  reject: (error: Error) => void;
}

interface CommandInternals extends IoredisCommand {
  _commandTimeoutTimer?: NodeJS.Timeout | undefined;
  isTraced?: boolean;
  /** Exists only in ioredis 6. */
  setReplyContext?(context: unknown): void;
}

/** A pipeline or transaction of ioredis. */
export interface IoredisPipeline {
  exec(...args: unknown[]): Promise<unknown>;
}

interface PipelineInternals extends IoredisPipeline {
  redis: unknown;
  readonly _queue?: readonly IoredisCommand[];
}

interface IoredisInternals {
  readonly options: object;
  readonly stream?: Socket;
  readonly condition?: { readonly select?: number } | null;
}

const areMethods = (...candidates: readonly unknown[]): boolean =>
  candidates.every((candidate) => typeof candidate === 'function');

/**
 * Whether a value is an ioredis client for one server. Judged by its methods, because the application may have another copy of ioredis. A
 * Cluster is no such client: it reads from replicas by its own option `scaleReads`.
 */
export function isIoredisClient(client: unknown): boolean {
  const { duplicate, sendCommand, pipeline, options, isCluster } = Object(client) as Record<string, unknown>;
  return areMethods(duplicate, sendCommand, pipeline) && !!options && isCluster !== true;
}

/**
 * The socket of an ioredis client. Without it, a connection could not be cut, nor stop keeping the process alive, nor be seen to receive
 * anything.
 */
export function streamOf(client: object): Socket | undefined {
  return (client as IoredisInternals).stream;
}

/**
 * The database that an ioredis client has selected; undefined if the client does not tell. Without this, reads after SELECT would see
 * another database.
 */
export function selectedDatabase(client: object): number | undefined {
  return (client as IoredisInternals).condition?.select;
}

/**
 * Creates the object on which ioredis's methods are called: they build a command and pass it to the object's `sendCommand`. Without this,
 * every method would have to be written again with its arguments and callbacks. Options are read for every command, because the application
 * may change them.
 */
export function commandBuilder(
  client: object,
  sendCommand: (command: IoredisCommand, stream?: unknown) => unknown,
): object {
  const { options } = client as IoredisInternals;
  return { options: Object.create(options, { enableAutoPipelining: { value: false } }), sendCommand };
}

/** Stops the timeout of an ioredis command. Without this, an attempt that was given up would reject its command later. */
export function stopTimeout(command: IoredisCommand): void {
  const internals = command as CommandInternals;
  if (internals._commandTimeoutTimer === undefined) return;
  clearTimeout(internals._commandTimeoutTimer);
  internals._commandTimeoutTimer = undefined;
}

/**
 * Copies an ioredis command so that it can be sent once more. The copy has its own properties, because V8 is slow with an object that is
 * another one's prototype. Without resetting `isTraced`, ioredis's tracing channel would miss the second attempt.
 */
export function copyOf(command: IoredisCommand): IoredisCommand {
  const copy: CommandInternals = Object.assign(Object.create(Object.getPrototypeOf(command)), command);
  copy.isTraced = false;
  return copy;
}

/** Gives a command the reply context of its copy, which the server answered. Without this, ioredis 6 could decode the answer wrongly. */
export function passReplyContext(command: IoredisCommand, copy: IoredisCommand): void {
  if (copy !== command) (command as CommandInternals).setReplyContext?.(copy);
}

/**
 * The commands queued in an ioredis pipeline; undefined for `multi({ pipeline: false })`, which queues none. Without this, evenkeel could
 * not know whether all of them are reads.
 */
export function queuedCommands(pipeline: object): readonly IoredisCommand[] | undefined {
  return (pipeline as PipelineInternals)._queue;
}

/** Makes an ioredis pipeline send its commands through `client`. Without this, all pipelines would go to the primary. */
export function sendThrough(pipeline: IoredisPipeline, client: object): void {
  (pipeline as PipelineInternals).redis = client;
}

/**
 * Stands in for a socket, as in ioredis's own pipelines: what commands write to it is sent in one write. Without this, each command of a
 * pipeline would be a packet of its own.
 */
export class OneWrite {
  readonly isPipeline = true;
  readonly destination: { readonly redis: object };
  readonly #chunks: (string | Buffer)[] = [];

  constructor(redis: object) {
    this.destination = { redis };
  }

  write(chunk: string | Buffer): void {
    this.#chunks.push(chunk);
  }

  flush(): void {
    const chunks = this.#chunks;
    if (chunks.length === 0) return;
    const areTexts = chunks.every((chunk) => typeof chunk === 'string');
    streamOf(this.destination.redis)?.write(
      areTexts ? chunks.join('') : Buffer.concat(chunks.map((chunk) => Buffer.from(chunk as string))),
    );
  }
}

/** The object in which node-redis collects the arguments of a command that is being built. */
interface Parser {
  readonly redisArgs: readonly unknown[];
}

interface NodeRedisInternals {
  /** The client behind views such as the one that `withTypeMapping` returns. Every command is executed here. */
  readonly _self: { _executeCommand(command: unknown, parser: Parser, ...rest: unknown[]): Promise<unknown> };
  readonly _executeScript?: Method;
}

/** Whether a value is a node-redis client for one server, and not a cluster, sentinel or pool. Judged by its methods. */
export function isNodeRedisClient(client: unknown): boolean {
  const { duplicate, sendCommand, destroy, _self } = Object(client) as Record<string, unknown>;
  const { _executeCommand } = Object(_self) as Record<string, unknown>;
  return areMethods(duplicate, sendCommand, destroy, _executeCommand) && 'isPubSubActive' in Object(client);
}

/**
 * Creates the object on which node-redis's methods are called: they build a command and pass it to `_self`. `route` gets the command's
 * words, and a function that sends the command on a client. Without this, every method would have to be written again. Scripts go to the
 * primary, because a script may have the name of a command.
 */
export function commandRouter<Client extends object>(
  primary: Client,
  route: (words: readonly unknown[], send: (client: Client) => Promise<unknown>) => Promise<unknown>,
): object {
  const internalsOf = (client: Client): NodeRedisInternals => client as Client & NodeRedisInternals;
  const executeCommand = (command: unknown, parser: Parser, ...rest: unknown[]): Promise<unknown> =>
    route(parser.redisArgs, (client) => internalsOf(client)._self._executeCommand(command, parser, ...rest));
  return Object.create(primary, {
    _self: { value: { _executeCommand: executeCommand } },
    _executeScript: { value: (...args: unknown[]) => internalsOf(primary)._executeScript?.(...args) },
  });
}

/**
 * What an error of a Redis library means: the connection was `lost`, the command was `unsent`, it `timed-out`, or its caller `called-off`
 * the command.
 */
export type FailureKind = 'lost' | 'unsent' | 'timed-out' | 'called-off';

/** node-redis's message for a connection that neither evenkeel nor the application closed. */
const CLOSED_BY_SERVER = 'Socket closed unexpectedly';

const kindByMessage: ReadonlyMap<string, FailureKind> = new Map([
  // These are messages of ioredis.
  ['Connection is closed.', 'lost'],
  ["Stream isn't writeable and enableOfflineQueue options is false", 'unsent'],
  ['Command timed out', 'timed-out'],
  // These are messages of node-redis.
  [CLOSED_BY_SERVER, 'lost'],
  ['Disconnects client', 'lost'],
  ['The client is closed', 'unsent'],
  ['The client is offline', 'unsent'],
  ['The command was aborted', 'called-off'],
]);

/**
 * What an error of ioredis or node-redis means, by its message, because their errors have no codes. Without this, each would count as a
 * server's answer.
 */
export function failureKindOf({
  name,
  message,
}: {
  readonly name?: string | undefined;
  readonly message: string;
}): FailureKind | undefined {
  if (name === 'AbortError' || name === 'MaxRetriesPerRequestError') return 'lost';
  return kindByMessage.get(message);
}

/**
 * Whether an error of node-redis says that the server closed the connection in order. Without this, a server's restart would count as a
 * failure.
 */
export function isOrderlyEnd({ message }: Error): boolean {
  return message === CLOSED_BY_SERVER;
}
