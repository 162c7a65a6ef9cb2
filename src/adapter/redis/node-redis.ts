import type { EventEmitter } from 'node:events';
import { isIP } from 'node:net';
import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import type { Endpoint } from '../../index.js';
import { optionError } from '../kit/index.js';
import type { OpenClient, Read, ReplicaClient } from './connection.js';
import type { FacadeParts, ReplicasSettings } from './options.js';

type Method = (...args: unknown[]) => unknown;

/** The part of a node-redis client that evenkeel uses. */
interface NodeRedis extends EventEmitter {
  readonly options: Readonly<Record<string, unknown>> & { readonly socket?: object; readonly database?: number };
  readonly isOpen: boolean;
  /** The client behind views such as that of `withTypeMapping`. Every command ends here. */
  readonly _self: { _executeCommand(command: unknown, parser: Parser, ...rest: unknown[]): Promise<unknown> };
  connect(): Promise<unknown>;
  duplicate(overrides: object): NodeRedis;
  sendCommand(args: readonly unknown[], options?: unknown): Promise<unknown>;
  multi(): { exec: Method };
  info(section: string): Promise<unknown>;
  destroy(): void;
  ref(): void;
  unref(): void;
}

interface Parser {
  readonly redisArgs: readonly unknown[];
}

/** Whether this is a client of node-redis for one server: no cluster, sentinel or pool. */
export function isNodeRedis(client: unknown): boolean {
  if (typeof client !== 'object' || client === null) return false;
  const { duplicate, sendCommand, destroy, _self } = client as Record<string, unknown>;
  const isClient =
    'isPubSubActive' in client && [duplicate, sendCommand, destroy].every((one) => typeof one === 'function');
  return isClient && typeof (_self as { _executeCommand?: unknown } | undefined)?._executeCommand === 'function';
}

/** Makes clients of replicas as the primary's client makes duplicates of itself. */
export function openNodeRedis(given: unknown, { service, clientOptions }: ReplicasSettings): OpenClient {
  const primary = given as NodeRedis;
  if (primary.options.clientSideCache !== undefined) {
    throw optionError('primary', 'a client without clientSideCache: it would answer reads by itself', 'one with it');
  }
  const own: { readonly socket?: object } = clientOptions;
  return ({ address: host, port = service.port ?? 6379 }: Endpoint, ended) => {
    // A path, even an undefined one, would be dialed.
    const { path: _, ...socket } = { ...primary.options.socket, ...own.socket } as Record<string, unknown>;
    for (const name of ['servername', 'checkServerIdentity']) if (socket[name] === undefined) delete socket[name];
    const client = primary.duplicate({
      ...clientOptions,
      url: undefined,
      database: primary.options.database,
      socket: {
        ...(socket.tls === true && tlsNames(service.host, socket.servername)),
        ...socket,
        host,
        port,
        // The balancer connects again, and decides what is sent again.
        reconnectStrategy: false,
      },
      disableOfflineQueue: true,
      // Otherwise node-redis 6 looks up the host by itself.
      maintNotifications: 'disabled',
    });
    return new NodeRedisClient(client, ended);
  };
}

/** The certificate must name the Service, not the pod that is dialed. */
function tlsNames(name: string, servername: unknown): object {
  const expected = typeof servername === 'string' ? servername : name;
  return {
    checkServerIdentity: (_dialled: string, certificate: PeerCertificate) => checkServerIdentity(expected, certificate),
    ...(isIP(name) === 0 && { servername: name }),
  };
}

class NodeRedisClient implements ReplicaClient {
  readonly client: NodeRedis;
  #isClosing = false;

  constructor(client: NodeRedis, ended: (error: Error | undefined) => void) {
    this.client = client;
    let failure: Error | undefined;
    const end = (): void => ended(this.#isClosing ? undefined : (failure ?? new Error('it closed the connection')));
    client.on('error', (error: Error) => {
      failure ??= error;
      if (!client.isOpen) end();
    });
    client.once('end', end);
  }

  async connect(): Promise<void> {
    await this.client.connect();
  }

  async info(): Promise<string> {
    return String(await this.client.info('replication'));
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

/** Commands that ask for replies of another form, or with a signal: what they return is a view of the client. */
const VIEWS: ReadonlySet<string> = new Set(['withCommandOptions', 'withTypeMapping', 'withAbortSignal', 'asap']);
/** End the client. */
const ENDS: ReadonlySet<string> = new Set(['close', 'quit', 'QUIT', 'disconnect', 'destroy']);

/**
 * A view of the primary's client whose reads go to replicas. All else is the primary's: state, events, commands, and what the
 * application changes about it.
 */
export function readNodeRedis<C extends object>(given: C, parts: FacadeParts): C {
  const primary = given as unknown as NodeRedis;
  return facadeOf(primary, new Hold(primary), parts) as C;
}

/** Whether reads have to be answered by the primary: a transaction watches keys, or another database was selected. */
class Hold {
  isWatching = false;
  #database: unknown;
  readonly #own: number;

  constructor({ options }: NodeRedis) {
    this.#own = options.database ?? 0;
    this.#database = this.#own;
  }

  get isHeld(): boolean {
    return this.isWatching || Number(this.#database) !== this.#own;
  }

  note([name, first]: readonly unknown[]): void {
    const lower = String(name).toLowerCase();
    if (lower === 'watch') this.isWatching = true;
    else if (lower === 'exec' || lower === 'discard' || lower === 'unwatch') this.isWatching = false;
    else if (lower === 'select') this.#database = first;
  }
}

function facadeOf(primary: NodeRedis, hold: Hold, parts: FacadeParts): object {
  const { settings, read, close } = parts;
  const seen = primary as unknown as Record<PropertyKey, unknown>;
  const route = (args: readonly unknown[], send: (client: NodeRedis) => Promise<unknown>): Promise<unknown> => {
    hold.note(args);
    if (hold.isHeld || !settings.reads.has(String(args[0]).toLowerCase())) return send(primary);
    return new Promise((resolve, reject) => {
      const what: Read = {
        send: (client) => send(client as NodeRedis),
        answered: resolve,
        failed: reject,
        sendToPrimary: () => send(primary).then(resolve, reject),
      };
      read(what);
    });
  };
  // What node-redis's own methods need of a client. They make the command, and hand it to `_self`.
  const commander: object = Object.create(primary, {
    _self: {
      value: {
        _executeCommand: (command: unknown, parser: Parser, ...rest: unknown[]) =>
          route(parser.redisArgs, (client) => client._self._executeCommand(command, parser, ...rest)),
      },
    },
    // A script may be named like a command.
    _executeScript: { value: (...args: unknown[]) => (seen._executeScript as Method).apply(primary, args) },
  });
  const own = new Map<PropertyKey, Method>();
  own.set('sendCommand', (args, options) =>
    route(args as readonly unknown[], (client) => client.sendCommand(args as readonly unknown[], options)),
  );
  own.set('connect', () => primary.connect().then(() => facade));
  const noted = (name: string): void => {
    own.set(name, (...args) => {
      hold.note([name, ...args]);
      return (seen[name] as Method).apply(primary, args);
    });
  };
  for (const name of ['watch', 'unwatch', 'select']) {
    noted(name);
    noted(name.toUpperCase());
  }
  for (const name of ['multi', 'MULTI']) {
    own.set(name, () => {
      const multi = primary.multi();
      const exec = multi.exec;
      multi.exec = (...args) => {
        hold.isWatching = false;
        return exec.apply(multi, args);
      };
      return multi;
    });
  }
  const method = (name: string, value: Method): Method => {
    if (VIEWS.has(name)) {
      // Its options come with each command.
      return (...args) => facadeOf(value.apply(primary, args) as NodeRedis, hold, parts);
    }
    if (ENDS.has(name)) {
      return (...args) => {
        const closed = close(name === 'destroy' || name === 'disconnect' ? AbortSignal.abort() : undefined);
        const answer: unknown = value.apply(primary, args);
        return answer instanceof Promise ? Promise.all([answer, closed]).then(([first]) => first) : answer;
      };
    }
    if (isRead(name, settings.reads)) return (...args) => value.apply(commander, args);
    return (...args) => {
      const result = value.apply(primary, args);
      return result === primary ? facade : result;
    };
  };
  const facade: object = new Proxy(primary, {
    get(_, property) {
      const value = Reflect.get(primary, property, primary) as unknown;
      if (typeof value !== 'function' || property === 'constructor' || typeof property === 'symbol') return value;
      let made = own.get(property);
      if (made === undefined) {
        made = method(property, value as Method);
        own.set(property, made);
      }
      return made;
    },
  });
  return facade;
}

/** Whether a method may send a command that reads: `hGetAll`, `ZRANGE_WITHSCORES`. What it sends decides. */
function isRead(method: string, reads: ReadonlySet<string>): boolean {
  const name = method.toLowerCase().replace(/_(?!ro)/g, '');
  for (let length = name.length; length > 2; length--) {
    const start = name.slice(0, length);
    if (reads.has(start) || reads.has(start.replace(/ro$/, '_ro'))) return true;
  }
  return false;
}
