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
  optionTable,
  orAborted,
  type PerEndpoint,
  pickNames,
  type ServiceName,
  serviceName,
} from '../kit/index.js';

/** A client of ioredis or node-redis. */
export interface RedisClient {
  /** Makes another client with the same options but for those given, as both libraries do; each replica gets one. */
  // biome-ignore lint/suspicious/noExplicitAny: each library has options of its own.
  duplicate(...override: any[]): unknown;
}

/** Options of `createReplicas`: those of balancing, and its own. */
export interface ReplicasOptions extends BalancingOptions {
  /**
   * Who answers reads. `prefer-replica`: replicas or, while none can, the primary, at once. `replica`: replicas alone, so that a read waits
   * for one and then fails. @defaultValue 'prefer-replica'
   */
  readonly role?: 'prefer-replica' | 'replica' | undefined;
  /** More commands that replicas may answer, such as those of modules: `['JSON.GET']`. @defaultValue none */
  readonly readCommands?: readonly string[] | undefined;
  /**
   * What the clients of replicas do differently from the primary's, as the library calls it: `password`, `tls` … A function is called
   * for each new connection; use it for passwords that expire. @defaultValue {}
   */
  readonly clientOptions?: PerEndpoint<object> | undefined;
  /**
   * A replica further behind than this gets no read while another server may answer it, in ms. The primary is then asked for its
   * position in the replication log, over a connection of its own. @defaultValue Infinity: lag is not measured
   */
  readonly maxLagMs?: number | undefined;
  /** How often replicas are asked for their role and their link to the primary, in ms, ± 20 %. @defaultValue 1000 */
  readonly probeIntervalMs?: number | undefined;
}

/** The replicas of a primary. Must be closed. */
export interface Replicas<C> extends AsyncDisposable {
  /**
   * The primary's client, except that replicas answer reads. `quit`, `disconnect` and their like also close the connections to replicas;
   * `duplicate` makes a client of the primary alone.
   */
  readonly client: C;
  /** State and control of the replicas' balancer: `ready()`, `snapshot()`. */
  readonly balancer: Balancer<unknown>;
  /** Closes the connections to replicas, after what runs on them. The primary's client stays open, and answers reads by itself. */
  close(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
}

/** `ReplicasOptions`, complete and checked. */
export interface ReplicasSettings
  extends Omit<Complete<Omit<ReplicasOptions, keyof BalancingOptions>>, 'readCommands'> {
  readonly service: ServiceName;
  /** The commands that count as reads, in lower case. */
  readonly reads: ReadonlySet<string>;
}

/** A read, as its library has it: one command, or a pipeline. */
export interface Read {
  /** Sends the read to a replica. */
  send(client: unknown, attempt: ReadAttempt): void;
  failed(error: Error): void;
  /** Sends the read to the primary, which then answers it. */
  sendToPrimary(): void;
}

/** An attempt of a read on a replica. Either `answered` or `failed` is called, once. */
export interface ReadAttempt {
  /** The replica answered; the read tells its caller next. */
  answered(): void;
  /** The answer is an error, or there is none. The read may be sent again. */
  failed(error: unknown): void;
}

/** What the view of a library's client needs. */
export interface ViewParts {
  readonly settings: ReplicasSettings;
  readonly read: (read: Read) => void;
  readonly close: (signal?: AbortSignal) => Promise<void>;
}

// biome-ignore lint/suspicious/noExplicitAny: a method of any client.
export type Method = (...args: any[]) => any;

/**
 * A view of a client: methods made by `replaced` take the place of its own. All else is the client's: state, events, methods, and what
 * the application changes about it.
 */
export function viewOf<C extends object>(
  client: C,
  replaced: (name: string, own: Method, view: C) => Method | undefined,
): C {
  const known = new Map<PropertyKey, { readonly own: unknown; readonly method: Method }>();
  const patched = (property: PropertyKey, method: unknown): boolean => {
    const entry = known.get(property);
    if (entry === undefined || typeof method !== 'function') return false;
    known.set(property, { own: entry.own, method: method as Method });
    return true;
  };
  const view: C = new Proxy(client, {
    get(_, property) {
      const own: unknown = Reflect.get(client, property, client);
      if (typeof own !== 'function' || property === 'constructor') return own;
      let entry = known.get(property);
      if (entry?.own !== own) {
        const bound = (...args: unknown[]): unknown => {
          const result: unknown = own.apply(client, args);
          return result === client ? view : result;
        };
        const method = typeof property === 'string' ? replaced(property, own as Method, view) : undefined;
        entry = { own, method: method ?? bound };
        known.set(property, entry);
      }
      return entry.method;
    },
    // A method that others patch on the view is set on the view alone: on the client it would call itself.
    set: (_, property, value: unknown) => patched(property, value) || Reflect.set(client, property, value, client),
    defineProperty: (_, property, descriptor) =>
      patched(property, descriptor.value) || Reflect.defineProperty(client, property, descriptor),
  });
  return view;
}

const ENDS_HOLD: ReadonlySet<string> = new Set(['exec', 'discard', 'unwatch']);

/** Whether reads have to be answered by the primary: from WATCH or MULTI on, its connection has to see all commands. */
export class Hold {
  isHeld = false;

  /** The application sends this command, in lower case. */
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
      throw optionError(name, "an object of the library's options, or a function", typeof value);
    }),
    maxLagMs: numberOption(Number.POSITIVE_INFINITY, { min: 0, max: 86_400_000, infinite: true }),
    probeIntervalMs: numberOption(1_000, { min: 10, max: 3_600_000 }),
  },
);

/** Fills in defaults and checks everything. Throws EVENKEEL_OPTION that names the field; no message contains a secret. */
export function replicasSettings(target: unknown, options: ReplicasOptions): ReplicasSettings {
  if (typeof options !== 'object' || options === null) throw optionError('options', 'an object', options);
  checkKeys('options', options, [...balancingTable.names, ...replicasTable.names]);
  checkBalancingOptions(pickNames(options, balancingTable.names));
  const { readCommands, ...settings } = replicasTable.resolveOwn(options);
  return { ...settings, service: serviceName(target), reads: new Set([...readCommandNames, ...readCommands]) };
}

/** The options in which the client of one replica differs from the primary's. */
export async function optionsAt(
  endpoint: Endpoint,
  { clientOptions }: ReplicasSettings,
  signal: AbortSignal,
): Promise<object> {
  if (typeof clientOptions !== 'function') return clientOptions;
  const optionsFor = clientOptions as (endpoint: Endpoint) => object | Promise<object>;
  try {
    return await orAborted(optionsFor(endpoint), signal);
  } catch (error) {
    // Callers do not wait for a password that cannot be had, as they do not for one that is refused.
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
 * Commands that Redis 7 flags `readonly`, without those that block (XREAD), continue what one server began (the SCAN family),
 * run scripts, or are sent for their effect (TOUCH). A test compares the list with the flags of a real server.
 */
export const readCommandNames: readonly string[] = words(`
  bitcount bitfield_ro bitpos dbsize dump exists expiretime geodist geohash geopos georadius_ro georadiusbymember_ro geosearch get
  getbit getrange hexists hexpiretime hget hgetall hkeys hlen hmget hpexpiretime hpttl hrandfield hstrlen httl hvals keys lcs lindex
  llen lpos lrange mget pexpiretime pfcount pttl randomkey scard sdiff sinter sintercard sismember smembers smismember sort_ro
  srandmember strlen substr sunion ttl type xlen xpending xrange xrevrange zcard zcount zdiff zinter zintercard zlexcount zmscore
  zrandmember zrange zrangebylex zrangebyscore zrank zrevrange zrevrangebylex zrevrangebyscore zrevrank zscore zunion`);

/** Flagged `readonly` by servers, and kept from replicas all the same; or of no use anywhere but on one connection. */
export const neverReads: ReadonlySet<string> = new Set(
  words(`scan hscan sscan zscan xread xreadgroup blpop brpop brpoplpush blmove blmpop bzpopmin bzpopmax bzmpop wait waitaof
    multi exec discard watch unwatch select auth hello reset quit client subscribe psubscribe ssubscribe unsubscribe
    punsubscribe sunsubscribe monitor ft.cursor`),
);
