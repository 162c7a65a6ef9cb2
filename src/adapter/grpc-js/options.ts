import type { ChannelOptions, ClientOptions, Metadata } from '@grpc/grpc-js';
import {
  type BalancerSnapshot,
  type BalancingOptions,
  type Clock,
  EvenkeelError,
  type Priority,
  type RetryOptions,
  type Rng,
  systemClock,
  systemRng,
} from '../../index.js';
import {
  type AskForReports,
  balancingTable,
  type ConnectionCounts,
  checkAskForReports,
  checkBalancingOptions,
  checkedOption,
  connectionsOption,
  functionOption,
  isPriority,
  numberOption,
  type OptionTable,
  optionError,
  optionTable,
  ownProperties,
  type PropagateOptions,
  Propagation,
  unknownOption,
} from '../kit/index.js';
import { isHidden } from './internals.js';

/** Inspects and closes the balancing of one channel; `serviceChannelOptions({ onBalancer })` provides this object. */
export interface ChannelBalancer extends AsyncDisposable {
  /**
   * Resolves once the first endpoint set is known, even if it is empty; an idle channel starts looking for endpoints. Rejects as
   * `Balancer.ready` does, and with EVENKEEL_CLOSED when the channel is closed.
   */
  ready(options?: { readonly signal?: AbortSignal }): Promise<void>;
  /** Returns the current state. An idle channel has no endpoint and no connection. */
  snapshot(): BalancerSnapshot;
  /**
   * Ends the balancing permanently: new calls fail, running ones finish. Closing the client does this too. Resolves when every call has
   * ended, after `pool.drainTimeoutMs` or when `signal` aborts; calls are never cut.
   */
  close(options?: { readonly signal?: AbortSignal }): Promise<void>;
}

/** Returns the key for hash pickers from a call's metadata; undefined = no affinity. */
export type CallKey = (metadata: Metadata) => string | null | undefined;

/** Returns the priority from a call's metadata; undefined = 'default'. */
export type CallPriority = (metadata: Metadata) => Priority | undefined;

/** The options of grpc-js for which it declares types. */
type KnownGrpcOptions = {
  readonly [Name in keyof ChannelOptions as Name extends `grpc.${string}` | `grpc-node.${string}`
    ? Name
    : never]?: ChannelOptions[Name];
};

/**
 * Connections to a pod that grow with its calls: when every connection has as many calls as it may, another is opened, and a connection
 * beyond `min` that had no call for 5 to 10 minutes is closed.
 */
export interface GrowingConnections {
  /** How many connections to a pod stay open; calls use these first. @defaultValue 1 */
  readonly min?: number | undefined;
  /** The largest number of connections to a pod; 1 to 100, and not below `min`. */
  readonly max: number;
}

/**
 * Options of `serviceChannelOptions`. Keys that begin with `grpc.` or `grpc-node.`, and those of grpc-js's clients (`interceptors`,
 * `interceptor_providers`, `callInvocationTransformer`), are grpc-js's own and are passed on unchanged. `retryPolicy` and `hedgingPolicy`
 * of `grpc.service_config` say what is retried, with a new pick for each attempt; of evenkeel's `retry` there is only the budget that pays
 * for the attempts.
 */
export interface GrpcOptions
  extends Omit<BalancingOptions, 'retry' | 'waitWhileRefused'>,
    KnownGrpcOptions,
    Pick<ClientOptions, 'interceptors' | 'interceptor_providers' | 'callInvocationTransformer'> {
  /**
   * The retry budget, which limits what `retryPolicy` and `hedgingPolicy` may send. @defaultValue a fifth of the calls, and 10 per second
   */
  readonly retry?: Pick<RetryOptions, 'budget'> | undefined;
  /** Where hash pickers find the key of a call: the name of a metadata entry, or a function. @defaultValue none: calls have no affinity */
  readonly key?: string | CallKey | undefined;
  /**
   * Where a call's priority is found: the name of a metadata entry, or a function, which is called for every call. It decides
   * which waiting calls are served first and, with a `limit`, which are rejected first.
   * @defaultValue the entry `propagate.priorityHeader`, which calls made for a request that is being served inherit from it
   * (`propagate.context`)
   * @see docs/guide/overload.md#priorities
   */
  readonly priority?: string | CallPriority | undefined;
  /**
   * What is sent along with a call besides `grpc-timeout`: its priority. @defaultValue {}, see `PropagateOptions`
   * @see docs/guide/overload.md#passing-on-deadlines-and-priorities
   */
  readonly propagate?: Omit<PropagateOptions, 'deadlineHeader'> | undefined;
  /**
   * Connections to each pod. A number is how many are kept open; a call uses the one with the fewest calls. With `{ min, max }` they grow
   * with the calls. @defaultValue 1
   * @see docs/guide/grpc.md#more-calls-than-a-connection-takes
   */
  readonly connections?: number | GrowingConnections | undefined;
  /**
   * The most concurrent calls on one connection, if its server allows as many (`MAX_CONCURRENT_STREAMS`). Further calls go to another pod,
   * or wait for any pod. @defaultValue Infinity: as many as the server allows
   */
  readonly maxConcurrentStreams?: number | undefined;
  /**
   * The service name for health checks (grpc.health.v1), over the connection that calls use. Only used if a stage checks health. A server
   * without the health service counts as healthy. @defaultValue '' (the server as a whole)
   */
  readonly healthService?: string | undefined;
  /**
   * Which calls ask their server how busy it is, with the metadata `endpoint-load-metrics-format: BIN`. true: calls to servers that have
   * said that they report (`evenkeel/server`). 'always': every call. false: none. @defaultValue true
   * @see docs/guide/server.md#what-clients-do-with-it
   */
  readonly askForReports?: AskForReports | undefined;
  /** Called once per channel, when it is created, with an object that inspects and closes its balancing. @defaultValue none */
  readonly onBalancer?: ((balancer: ChannelBalancer) => void) | undefined;
  readonly [grpcOption: `grpc.${string}`]: unknown;
  readonly [grpcNodeOption: `grpc-node.${string}`]: unknown;
}

/**
 * The options of a channel that are neither grpc-js's nor those of every balancer, after defaults were filled in and everything was
 * checked.
 */
export interface GrpcSettings {
  readonly key: CallKey | undefined;
  /** Where a call's priority is read: the name of a metadata entry, or a function. */
  readonly priority: string | CallPriority | undefined;
  readonly propagate: Propagation;
  readonly connections: ConnectionCounts;
  readonly maxConcurrentStreams: number;
  readonly healthService: string;
  readonly askForReports: AskForReports;
  readonly onBalancer: ((balancer: ChannelBalancer) => void) | undefined;
}

const propagated = ['context', 'priorityHeader'] as const;

export const grpcTable: OptionTable<GrpcSettings> = optionTable('options', {
  key: checkedOption<CallKey | undefined>(undefined, (name, value) =>
    typeof value === 'function' ? (value as CallKey) : keyIn(checkEntryName(name, value)),
  ),
  priority: checkedOption<GrpcSettings['priority']>(undefined, (name, value) =>
    typeof value === 'function' ? (value as CallPriority) : checkEntryName(name, value),
  ),
  propagate: checkedOption(
    new Propagation(undefined, propagated),
    (_name, value) => new Propagation(value as PropagateOptions, propagated),
  ),
  connections: connectionsOption({ min: 1, max: 1 }),
  maxConcurrentStreams: numberOption(Number.POSITIVE_INFINITY, { min: 1, integer: true, infinite: true }),
  healthService: checkedOption('', (name, value) => {
    if (typeof value !== 'string') throw optionError(name, 'the name of a service', value);
    return value;
  }),
  askForReports: checkedOption<AskForReports>(true, checkAskForReports),
  onBalancer: functionOption<NonNullable<GrpcOptions['onBalancer']>>(),
});

/** The options of a channel without those that are grpc-js's own, after defaults were filled in and everything was checked. */
export interface ResolvedGrpcOptions extends Omit<GrpcSettings, 'priority' | 'propagate'> {
  /** The options that `createBalancer` gets. */
  readonly balancing: BalancingOptions;
  readonly priority: CallPriority | undefined;
  /** Whether calls can have a priority that their metadata does not contain. */
  readonly hasPriority: boolean;
  readonly propagation: Propagation;
  readonly clock: Clock;
  readonly rng: Rng;
}

/** Options of grpc-js's clients, passed on like those of its channels. */
const clientOptionNames = ['interceptors', 'interceptor_providers', 'callInvocationTransformer'] as const;

/** Whether grpc-js's channels read the option of this name. */
function isChannelOption(name: string): boolean {
  return name.startsWith('grpc.') || name.startsWith('grpc-node.');
}

/** Whether grpc-js itself reads the option of this name. */
export function isGrpcOption(name: string): boolean {
  return isChannelOption(name) || (clientOptionNames as readonly string[]).includes(name);
}

/** The options of grpc-js's transport and credentials. Channels with equal options get equal arguments, so that they share connections. */
export function subchannelArgs(channelOptions: ChannelOptions): ChannelOptions {
  return Object.fromEntries(
    Object.entries(channelOptions).filter(([name]) => isChannelOption(name) && !isHidden(name)),
  );
}

/** Fills in defaults and checks every option but grpc-js's own. Throws EVENKEEL_OPTION. */
export function resolveGrpcOptions(options: GrpcOptions = {}): ResolvedGrpcOptions {
  if (typeof options !== 'object' || options === null) throw optionError('options', 'an object', options);
  const balancing: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(options)) {
    if (isGrpcOption(name) || (grpcTable.names as readonly string[]).includes(name)) continue;
    if (name === 'retry') checkRetry(value);
    if (name === 'waitWhileRefused') throw optionError(name, 'left out: a call says so itself (waitForReady)', value);
    if (!(balancingTable.names as readonly string[]).includes(name)) {
      const optionNames = [...balancingTable.names.filter((known) => known !== 'waitWhileRefused'), ...grpcTable.names];
      throw unknownOption('options', name, ['grpc.*', 'grpc-node.*', ...clientOptionNames, ...optionNames]);
    }
    balancing[name] = value;
  }
  checkBalancingOptions(balancing);
  const { clock = systemClock, rng = systemRng } = ownProperties(options);
  const { priority, propagate: propagation, ...settings } = grpcTable.resolveOwn(options);
  return {
    ...settings,
    balancing,
    priority: priorityRule(priority, propagation.priorityHeader),
    hasPriority: priority !== undefined,
    propagation,
    clock,
    rng,
  };
}

/** Checks the name of a metadata entry. Throws EVENKEEL_OPTION. */
function checkEntryName(name: string, value: unknown): string {
  if (typeof value === 'string' && /^[0-9a-z_.-]+$/i.test(value)) return value;
  throw optionError(name, 'the name of a metadata entry, or a function', value);
}

function checkRetry(retry: unknown): void {
  for (const name of Object.keys(retry ?? {})) {
    if (name === 'budget') continue;
    const instead = "what is retried is said by retryPolicy or hedgingPolicy of 'grpc.service_config'";
    throw new EvenkeelError('EVENKEEL_OPTION', `a gRPC channel has no option "retry.${name}": ${instead}`);
  }
}

function priorityRule(priority: GrpcSettings['priority'], header: string | undefined): CallPriority | undefined {
  if (typeof priority === 'function') return priority;
  const name = priority ?? header;
  if (name === undefined) return undefined;
  return (metadata) => {
    const [value] = metadata.get(name);
    return isPriority(value) ? value : undefined;
  };
}

function keyIn(name: string): CallKey {
  return (metadata) => {
    const [value] = metadata.get(name);
    return value === undefined ? undefined : value.toString();
  };
}
