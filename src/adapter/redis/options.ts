import type { Balancer, BalancingOptions, Endpoint } from '../../index.js';
import {
  asError,
  balancingTable,
  type Complete,
  checkBalancingOptions,
  checkedOption,
  checkKeys,
  choiceOption,
  markLasting,
  numberOption,
  type OptionTable,
  optionError,
  optionKindError,
  optionTable,
  orAborted,
  ownProperties,
  type PerEndpoint,
  pickNames,
  type ServiceName,
  serviceName,
} from '../kit/index.js';

/** A client of ioredis or node-redis for one server. */
export interface RedisClient {
  /**
   * Creates a client with this client's options, except for the ones passed here. Both libraries have this method; each replica gets such a
   * client.
   */
  // biome-ignore lint/suspicious/noExplicitAny: each library has options of its own.
  duplicate(...override: any[]): unknown;
}

/** Options of `createReplicas`: the options of every balancer, and its own. */
export interface ReplicasOptions extends BalancingOptions {
  /**
   * Which servers answer reads. `prefer-replica`: replicas or, while no replica is usable, the primary at once. `replica`: replicas only,
   * so that a read waits for a replica and then fails. @defaultValue 'prefer-replica'
   */
  readonly role?: 'prefer-replica' | 'replica' | undefined;
  /** Additional commands that replicas may answer, such as commands of modules: `['JSON.GET']`. @defaultValue none */
  readonly readCommands?: readonly string[] | undefined;
  /**
   * Options in which a replica's client differs from the primary's, as the library names them: `password`, `tls` … A function is called for
   * each new connection; use a function for passwords that expire. @defaultValue {}
   */
  readonly clientOptions?: PerEndpoint<object> | undefined;
  /**
   * A replica further behind than this, in ms, gets no read while another server may answer it. The primary's position in the replication
   * log is then queried over a separate connection. @defaultValue Infinity: lag is not measured
   */
  readonly maxLagMs?: number | undefined;
  /** How often each replica's role and its link to the primary are queried, in ms, ± 20 %. @defaultValue 1000 */
  readonly probeIntervalMs?: number | undefined;
}

/** The replicas of a Redis primary, and a client that reads from them. Must be closed. */
export interface Replicas<C> extends AsyncDisposable {
  /**
   * A view of the primary's client whose reads are answered by replicas. Its `quit`, `disconnect` and similar methods also close the
   * connections to replicas; its `duplicate` makes a client of the primary alone.
   */
  readonly client: C;
  /** The replicas' balancer: `ready()` waits for a replica, `snapshot()` returns the current state. */
  readonly balancer: Balancer<unknown>;
  /** Closes the connections to replicas once their running reads have ended. The primary's client stays open, and answers reads itself. */
  close(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
}

/** The options of `createReplicas`, after defaults were filled in and everything was checked. */
export interface ReplicasSettings
  extends Omit<Complete<Omit<ReplicasOptions, keyof BalancingOptions>>, 'readCommands'> {
  readonly service: ServiceName;
  /** The names of commands that count as reads, in lower case. */
  readonly reads: ReadonlySet<string>;
}

/** A read of the application: one command, or a pipeline, as the Redis library has it. */
export interface Read {
  /** Sends the read to a replica. */
  send(client: unknown, attempt: ReadAttempt): void;
  failed(error: Error): void;
  /** Sends the read to the primary, whose answer the caller gets. */
  sendToPrimary(): void;
}

/** One attempt of a read on a replica. Either `answered` or `failed` is called, once. */
export interface ReadAttempt {
  /** The replica answered; the read settles its caller's promise afterwards. */
  answered(): void;
  /** The replica answered with an error, or did not answer. The read may be sent again. */
  failed(error: unknown): void;
}

/** What the view of a Redis client needs from the replicas it reads from. */
export interface ViewParts {
  readonly settings: ReplicasSettings;
  readonly read: (read: Read) => void;
  readonly close: (signal?: AbortSignal) => Promise<void>;
}

// biome-ignore lint/suspicious/noExplicitAny: a method of any client.
export type Method = (...args: any[]) => any;

/**
 * Creates a view of a client in which the methods that `replaced` returns take the place of the client's own. Everything else is the
 * client's: state, events, other methods, and later changes by the application.
 */
export function viewOf<C extends object>(
  client: C,
  replaced: (name: string, original: Method, view: C) => Method | undefined,
): C {
  const methods = new Map<PropertyKey, { readonly original: unknown; readonly method: Method }>();
  const patched = (property: PropertyKey, method: unknown): boolean => {
    const entry = methods.get(property);
    if (entry === undefined || typeof method !== 'function') return false;
    methods.set(property, { original: entry.original, method: method as Method });
    return true;
  };
  const view: C = new Proxy(client, {
    get(_, property) {
      const original: unknown = Reflect.get(client, property, client);
      if (typeof original !== 'function' || property === 'constructor') return original;
      let entry = methods.get(property);
      if (entry?.original !== original) {
        const bound = (...args: unknown[]): unknown => {
          const result: unknown = original.apply(client, args);
          return result === client ? view : result;
        };
        const method = typeof property === 'string' ? replaced(property, original as Method, view) : undefined;
        entry = { original, method: method ?? bound };
        methods.set(property, entry);
      }
      return entry.method;
    },
    // A method that the application patches on the view is set on the view alone: set on the client, it would call itself.
    set: (_, property, value: unknown) => patched(property, value) || Reflect.set(client, property, value, client),
    defineProperty: (_, property, descriptor) =>
      patched(property, descriptor.value) || Reflect.defineProperty(client, property, descriptor),
  });
  return view;
}

const ENDS_HOLD: ReadonlySet<string> = new Set(['exec', 'discard', 'unwatch']);

/** Whether reads must stay on the primary: from WATCH or MULTI until its end, one connection has to see every command. */
export class Hold {
  isHeld = false;

  /** Notes a command that the application sends, by its name in lower case. */
  note(command: string): void {
    if (command === 'watch' || command === 'multi') this.isHeld = true;
    else if (ENDS_HOLD.has(command)) this.isHeld = false;
  }
}

export const replicasTable: OptionTable<Complete<Omit<ReplicasOptions, keyof BalancingOptions>>> = optionTable(
  'options',
  {
    role: choiceOption('prefer-replica', ['prefer-replica', 'replica']),
    readCommands: checkedOption<readonly string[]>([], checkReads),
    clientOptions: checkedOption<PerEndpoint<object>>({}, (name, value) => {
      if (typeof value === 'function' || (typeof value === 'object' && value !== null)) return value;
      throw optionKindError(name, "an object of the library's options, or a function", value);
    }),
    maxLagMs: numberOption(Number.POSITIVE_INFINITY, { min: 0, max: 86_400_000, infinite: true }),
    probeIntervalMs: numberOption(1_000, { min: 10, max: 3_600_000 }),
  },
);

/** Fills in defaults and checks every option. Throws EVENKEEL_OPTION, with a message that names the option and contains no secret. */
export function replicasSettings(target: unknown, options: ReplicasOptions): ReplicasSettings {
  if (typeof options !== 'object' || options === null) throw optionError('options', 'an object', options);
  checkKeys('options', options, [...balancingTable.names, ...replicasTable.names]);
  checkBalancingOptions(pickNames(options, balancingTable.names));
  const { readCommands, ...settings } = replicasTable.resolveOwn(options);
  return { ...settings, service: serviceName(target), reads: new Set([...readCommandNames, ...readCommands]) };
}

/** Returns the options in which the client of one replica differs from the primary's. */
export async function optionsAt(
  endpoint: Endpoint,
  { clientOptions }: ReplicasSettings,
  signal: AbortSignal,
): Promise<object> {
  if (typeof clientOptions !== 'function') return ownProperties(clientOptions);
  const optionsFor = clientOptions as (endpoint: Endpoint) => object | Promise<object>;
  try {
    return ownProperties(await orAborted(optionsFor(endpoint), signal));
  } catch (error) {
    // Callers do not wait for a password that cannot be had, as they do not wait for a server that refuses the password.
    throw signal.aborted ? error : markLasting(asError(error));
  }
}

function checkReads(option: string, names: unknown): string[] {
  if (!Array.isArray(names)) throw optionError(option, 'an array of command names', names);
  return names.map((name) => {
    if (typeof name !== 'string' || name === '') throw optionError(option, 'names of commands', name);
    const lower = name.toLowerCase();
    if (neverReads.has(lower)) throw optionError(option, 'left without this command: it needs one server', name);
    return lower;
  });
}

const words = (text: string): readonly string[] => text.trim().split(/\s+/);

/**
 * The commands that Redis 7 flags `readonly`, except those that block (XREAD), continue what one server began (the SCAN family), run
 * scripts, or are sent for their effect (TOUCH). A test compares the list with the flags of a real server.
 */
export const readCommandNames: readonly string[] = words(`
  bitcount bitfield_ro bitpos dbsize dump exists expiretime geodist geohash geopos georadius_ro georadiusbymember_ro geosearch get
  getbit getrange hexists hexpiretime hget hgetall hkeys hlen hmget hpexpiretime hpttl hrandfield hstrlen httl hvals keys lcs lindex
  llen lpos lrange mget pexpiretime pfcount pttl randomkey scard sdiff sinter sintercard sismember smembers smismember sort_ro
  srandmember strlen substr sunion ttl type xlen xpending xrange xrevrange zcard zcount zdiff zinter zintercard zlexcount zmscore
  zrandmember zrange zrangebylex zrangebyscore zrank zrevrange zrevrangebylex zrevrangebyscore zrevrank zscore zunion`);

/**
 * Commands that replicas must not answer, although servers flag some of them `readonly`: they block, continue earlier commands, or concern
 * one connection.
 */
export const neverReads: ReadonlySet<string> = new Set(
  words(`scan hscan sscan zscan xread xreadgroup blpop brpop brpoplpush blmove blmpop bzpopmin bzpopmax bzmpop wait waitaof
    multi exec discard watch unwatch select auth hello reset quit client subscribe psubscribe ssubscribe unsubscribe
    punsubscribe sunsubscribe monitor ft.cursor`),
);
