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
import { neverReads, readCommandNames } from './read-commands.js';

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
