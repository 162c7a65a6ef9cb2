import type { EventEmitter } from 'node:events';
import type { ConnectionOptions } from 'node:tls';
import { optionError, ownProperties, serviceTls } from '../kit/index.js';
import type { OpenClient, ServerClient } from './connection.js';
import { commandRouter, isOrderlyEnd } from './internals.js';
import type { ReplicasSettings } from './options.js';
import { Hold, type Method, type Read, type ReadAttempt, type ViewParts, viewOf } from './view.js';

/** The part of a node-redis client that evenkeel uses. */
interface NodeRedis extends EventEmitter {
  readonly options: Readonly<Record<string, unknown>> & { readonly socket?: object; readonly database?: number };
  readonly isOpen: boolean;
  connect(): Promise<unknown>;
  duplicate(overrides: object): NodeRedis;
  sendCommand(args: readonly unknown[], options?: unknown): Promise<unknown>;
  info(section: string): Promise<unknown>;
  destroy(): void;
  ref(): void;
  unref(): void;
}

/** The options of node-redis in which replicas may differ from the primary. */
interface OwnOptions {
  readonly socket?: object;
  readonly username?: string;
  readonly password?: string;
}

/** Makes clients by `duplicate` of the primary's client, so that replicas are reached with the application's options. */
export function openNodeRedis(client: unknown, { service }: ReplicasSettings, own: OwnOptions): OpenClient {
  const primary = client as NodeRedis;
  return (endpoint, ended) => {
    const { path, ...rest } = ownProperties({ ...primary.options.socket, ...(endpoint && own.socket) }) as Record<
      string,
      unknown
    >;
    const socket = ownProperties(rest);
    const hasOwnLogIn = own.username !== undefined || own.password !== undefined;
    const replica = endpoint && {
      url: undefined,
      // node-redis keeps the primary's user and password as a credentials provider, which would take precedence over the replica's own.
      ...(hasOwnLogIn && { credentialsProvider: undefined }),
      ...own,
    };
    const to = endpoint && {
      ...(socket.tls === true && serviceTls(service.host, socket as ConnectionOptions)),
      host: endpoint.address,
      port: endpoint.port ?? service.port ?? 6379,
    };
    const client = primary.duplicate({
      ...replica,
      database: primary.options.database,
      socket: {
        ...socket,
        // node-redis would connect to a Unix socket if a property `path` existed, even an undefined one.
        ...(endpoint === undefined && path !== undefined && { path }),
        ...to,
        // node-redis must not reconnect or resend commands by itself: the balancer connects again, and decides what is sent again.
        reconnectStrategy: false,
      },
      disableOfflineQueue: true,
      // Without this setting, node-redis 6 would look up the host by itself.
      maintNotifications: 'disabled',
    });
    return new NodeRedisClient(client, ended);
  };
}

class NodeRedisClient implements ServerClient {
  readonly client: NodeRedis;
  readonly received = 0;
  /** node-redis's own option `timeout` is no limit for commands that were sent: it only applies to those still queued. */
  readonly commandTimeoutMs = undefined;
  #isClosing = false;

  constructor(client: NodeRedis, ended: (error: Error | undefined) => void) {
    this.client = client;
    let failure: Error | undefined;
    const end = (): void => ended(this.#isClosing ? undefined : failure);
    client.on('error', (error: Error) => {
      if (!isOrderlyEnd(error)) failure ??= error;
      if (!client.isOpen) end();
    });
    client.once('end', end);
  }

  async connect(): Promise<void> {
    await this.client.connect();
  }

  async info(section: string): Promise<string> {
    return String(await this.client.info(section));
  }

  busy(isBusy: boolean): void {
    if (isBusy) this.client.ref();
    else this.client.unref();
  }

  finish(): void {
    this.#isClosing = true;
    this.cut();
  }

  cut(): void {
    if (this.client.isOpen) this.client.destroy();
  }
}

/** Methods of node-redis that return a view of the client with other options for its commands (another reply type, an abort signal). */
const VIEWS: ReadonlySet<string> = new Set(['withCommandOptions', 'withTypeMapping', 'withAbortSignal', 'asap']);
/** Methods of node-redis that end the client. */
const ENDS: ReadonlySet<string> = new Set(['close', 'quit', 'QUIT', 'disconnect', 'destroy']);
const NOTED: ReadonlySet<string> = new Set(['watch', 'unwatch', 'select']);

/** Creates a view of the primary's node-redis client that sends reads to replicas. */
export function readNodeRedis<C extends object>(client: C, parts: ViewParts): C {
  const primary = client as unknown as NodeRedis;
  if (primary.options.clientSideCache !== undefined) {
    throw optionError('primary', 'a client without clientSideCache: it would answer reads by itself', primary);
  }
  return readsOf(primary, new DatabaseHold(primary), parts) as unknown as C;
}

/** Also keeps reads on the primary while the application has selected another database there, which replicas have not. */
class DatabaseHold extends Hold {
  #database: unknown;
  readonly #own: number;

  constructor({ options }: NodeRedis) {
    super();
    this.#own = options.database ?? 0;
    this.#database = this.#own;
  }

  get holds(): boolean {
    return this.isHeld || Number(this.#database) !== this.#own;
  }

  /** @returns The command's name in lower case. */
  noteAll(args: readonly unknown[]): string {
    const name = String(args[0]).toLowerCase();
    if (name === 'select') this.#database = args[1];
    else this.note(name);
    return name;
  }
}

class CommandRead implements Read {
  readonly #primary: NodeRedis;
  readonly #send: (client: NodeRedis) => Promise<unknown>;
  readonly #resolve: (answer: unknown) => void;
  readonly failed: (error: Error) => void;
  /** How many attempts of the read were made: only the answer to the last one counts. */
  #made = 0;

  constructor(
    primary: NodeRedis,
    send: (client: NodeRedis) => Promise<unknown>,
    resolve: (answer: unknown) => void,
    reject: (error: Error) => void,
  ) {
    this.#primary = primary;
    this.#send = send;
    this.#resolve = resolve;
    this.failed = reject;
  }

  send(client: unknown, attempt: ReadAttempt): void {
    const number = ++this.#made;
    this.#send(client as NodeRedis).then(
      (answer) => {
        if (this.#made !== number) return;
        attempt.answered();
        this.#resolve(answer);
      },
      (error) => {
        if (this.#made === number) attempt.failed(error);
      },
    );
  }

  sendToPrimary(): void {
    this.#made++;
    this.#send(this.#primary).then(this.#resolve, this.failed);
  }
}

function readsOf(primary: NodeRedis, hold: DatabaseHold, { settings, read, close }: ViewParts): NodeRedis {
  const route = (args: readonly unknown[], send: (client: NodeRedis) => Promise<unknown>): Promise<unknown> => {
    const name = hold.noteAll(args);
    if (hold.holds || !settings.reads.has(name)) return send(primary);
    return new Promise((resolve, reject) => read(new CommandRead(primary, send, resolve, reject)));
  };
  const router = commandRouter(primary, route);
  return viewOf(primary, (name, own, view) => {
    const lower = name.toLowerCase();
    if (name === 'sendCommand') return (args, options) => route(args, (client) => client.sendCommand(args, options));
    if (name === 'connect') return () => primary.connect().then(() => view);
    // The options of such a view are passed along with each of its commands.
    if (VIEWS.has(name)) return (...args) => readsOf(own.apply(primary, args), hold, { settings, read, close });
    if (NOTED.has(lower)) {
      return (...args) => {
        hold.noteAll([name, ...args]);
        return own.apply(primary, args);
      };
    }
    if (lower === 'multi') return () => releasing(own.apply(primary), hold);
    if (ENDS.has(name)) {
      return (...args) => {
        const closed = close(name === 'destroy' || name === 'disconnect' ? AbortSignal.abort() : undefined);
        const answer: unknown = own.apply(primary, args);
        return answer instanceof Promise ? Promise.all([answer, closed]).then(([first]) => first) : answer;
      };
    }
    return isRead(name, settings.reads) ? (...args) => own.apply(router, args) : undefined;
  });
}

/** Wraps a transaction so that its `exec` ends the effect of WATCH. */
function releasing(multi: { exec: Method }, hold: Hold): object {
  const exec = multi.exec;
  multi.exec = (...args) => {
    hold.note('exec');
    return exec.apply(multi, args);
  };
  return multi;
}

/**
 * Whether a method of node-redis may send a command that reads, judged by its name, such as `hGetAll` or `ZRANGE_WITHSCORES`. The command
 * it sends decides in the end.
 */
function isRead(method: string, reads: ReadonlySet<string>): boolean {
  const name = method.toLowerCase().replace(/_(?!ro)/g, '');
  for (let length = name.length; length > 2; length--) {
    const start = name.slice(0, length);
    if (reads.has(start) || reads.has(start.replace(/ro$/, '_ro'))) return true;
  }
  return false;
}
