/**
 * Everything that ioredis and node-redis do not document and evenkeel uses. Each trick of ioredis was seen in 5.4, 5.11 and 6, each of
 * node-redis in 5.0, 5.12 and 6; the tests run against all of these. Neither library lets an application choose the connection of a
 * command. ioredis declined it (https://github.com/redis/ioredis/issues/387), and a pull request would add it
 * (https://github.com/redis/ioredis/pull/2126); no issue of node-redis was found.
 */
import type { Socket } from 'node:net';
import type { Method } from './options.js';

/** A command as ioredis builds it. Its fields are in ioredis's types, but not in its documentation. */
export interface IoredisCommand {
  readonly name: string;
  readonly promise: Promise<unknown>;
  /** Takes what the server sent for a command, which ioredis decodes and transforms for the caller. */
  resolve: (raw: unknown) => void;
  reject: (error: Error) => void;
}

interface CommandInternals extends IoredisCommand {
  _commandTimeoutTimer?: NodeJS.Timeout | undefined;
  isTraced?: boolean;
  /** Only ioredis 6 has this method. */
  setReplyContext?(context: unknown): void;
}

/** A pipeline of ioredis, or a transaction. */
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
 * Whether this is a client of ioredis for one server, by its methods: an application may have another copy of ioredis than we would
 * import. A Cluster has replicas of its own: `scaleReads`.
 */
export function isIoredisClient(client: unknown): boolean {
  const { duplicate, sendCommand, pipeline, options, isCluster } = Object(client) as Record<string, unknown>;
  return areMethods(duplicate, sendCommand, pipeline) && !!options && isCluster !== true;
}

/** The socket of a client. Without it, a connection could not be cut, kept from keeping the process alive, or seen to receive anything. */
export function streamOf(client: object): Socket | undefined {
  return (client as IoredisInternals).stream;
}

/** The database that a client has selected; undefined if it does not say. Without it, reads after SELECT would see another database. */
export function selectedDatabase(client: object): number | undefined {
  return (client as IoredisInternals).condition?.select;
}

/**
 * What ioredis's own methods need of a client: they build the command, and hand it to `sendCommand`. Without it, each method with its
 * arguments and callbacks would have to be written again. The options are read for every command, because the application may change them.
 */
export function commandBuilder(
  client: object,
  sendCommand: (command: IoredisCommand, stream?: unknown) => unknown,
): object {
  const { options } = client as IoredisInternals;
  return { options: Object.create(options, { enableAutoPipelining: { value: false } }), sendCommand };
}

/** Stops the time limit of a command. Without it, an attempt that was given up would reject its command later. */
export function stopTimeout(command: IoredisCommand): void {
  const internals = command as CommandInternals;
  if (internals._commandTimeoutTimer === undefined) return;
  clearTimeout(internals._commandTimeoutTimer);
  internals._commandTimeoutTimer = undefined;
}

/**
 * A copy of a command, which can be sent once more. It has properties of its own, because an object that is somebody's prototype is slow.
 * Without the change of `isTraced`, its tracing channel would not hear of the second attempt.
 */
export function copyOf(command: IoredisCommand): IoredisCommand {
  const copy: CommandInternals = Object.assign(Object.create(Object.getPrototypeOf(command)), command);
  copy.isTraced = false;
  return copy;
}

/** Tells a command how the server sent the answer to its copy. Without it, ioredis 6 could decode it wrongly. */
export function passReplyContext(command: IoredisCommand, copy: IoredisCommand): void {
  if (copy !== command) (command as CommandInternals).setReplyContext?.(copy);
}

/** The commands of a pipeline so far; undefined if it has none, as `multi({ pipeline: false })`. Without it, nobody knew if all are reads. */
export function queuedCommands(pipeline: object): readonly IoredisCommand[] | undefined {
  return (pipeline as PipelineInternals)._queue;
}

/** Has a pipeline hand its commands to `client`. Without it, all pipelines would go to the primary. */
export function sendThrough(pipeline: IoredisPipeline, client: object): void {
  (pipeline as PipelineInternals).redis = client;
}

/**
 * Takes the place of a socket, as in ioredis's own pipelines: what commands write to it leaves as one. Without it, each command of a
 * pipeline would be a packet.
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

/** What a command of node-redis consists of, while it is being built. */
interface Parser {
  readonly redisArgs: readonly unknown[];
}

interface NodeRedisInternals {
  /** The client behind views such as that of `withTypeMapping`. Every command ends here. */
  readonly _self: { _executeCommand(command: unknown, parser: Parser, ...rest: unknown[]): Promise<unknown> };
  readonly _executeScript?: Method;
}

/** Whether this is a client of node-redis for one server, by its methods: no cluster, sentinel or pool. */
export function isNodeRedisClient(client: unknown): boolean {
  const { duplicate, sendCommand, destroy, _self } = Object(client) as Record<string, unknown>;
  const { _executeCommand } = Object(_self) as Record<string, unknown>;
  return areMethods(duplicate, sendCommand, destroy, _executeCommand) && 'isPubSubActive' in Object(client);
}

/**
 * What node-redis's own methods need of a client: they build the command, and hand it to `_self`. `route` gets its words, and a function
 * that sends it on a client. Without it, each method would have to be written again. Scripts go to the primary, because one may be named
 * like a command.
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

/** What an error without a code means: its connection was cut, it was not sent, it took too long, its caller called it off. */
export type FailureKind = 'lost' | 'unsent' | 'timed-out' | 'called-off';

/** How node-redis calls an end of the connection that nobody asked for. */
const CLOSED_BY_SERVER = 'Socket closed unexpectedly';

const kindByMessage: ReadonlyMap<string, FailureKind> = new Map([
  // The messages of ioredis:
  ['Connection is closed.', 'lost'],
  ["Stream isn't writeable and enableOfflineQueue options is false", 'unsent'],
  ['Command timed out', 'timed-out'],
  // The messages of node-redis:
  [CLOSED_BY_SERVER, 'lost'],
  ['Disconnects client', 'lost'],
  ['The client is closed', 'unsent'],
  ['The client is offline', 'unsent'],
  ['The command was aborted', 'called-off'],
]);

/** What an error of either library means, by its message, since they have no codes. Without it, each would count as a server's answer. */
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

/** Whether an error of node-redis says that the server ended the connection in order. Without it, a restart would count as a failure. */
export function isOrderlyEnd({ message }: Error): boolean {
  return message === CLOSED_BY_SERVER;
}
