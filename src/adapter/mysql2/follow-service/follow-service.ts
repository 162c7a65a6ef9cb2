import type { PoolOptions as NodeOptions } from 'mysql2';
import {
  type BalancerOptions,
  type BalancerSnapshot,
  type Clock,
  combineObservers,
  conditions,
  createBalancer,
  type Endpoint,
  type Observer,
  outcomes,
  type PoolOptions,
  type Resolver,
  type Rng,
  type StageFactory,
} from '../../../index.js';
import {
  balancingTable,
  type Complete,
  checkedOption,
  checkFunction,
  checkKeys,
  clockOption,
  exactStages,
  numberOption,
  type OptionTable,
  optionError,
  optionTable,
  poolDefaults,
  poolTable,
  requiredOption,
  rngOption,
} from '../../kit/index.js';
import { Changes } from '../changes.js';
import { logIn } from '../server/opening.js';
import { ClusterNodes, type ClusterNodesOptions } from './cluster-nodes.js';
import type { AnyPoolCluster } from './user-cluster.js';

/** Options of `followService`. */
export interface FollowServiceOptions {
  /** Where endpoints come from: a resolver, or a target string such as `mysql-read.shop:3306`. @see docs/reference/targets.md */
  readonly resolver: Resolver | string;
  /**
   * Returns mysql2's options for the node of one endpoint: user, password, database, connectionLimit, ssl … evenkeel decides where to
   * connect: `host` is only the name that TLS checks, so pass the Service's; `port` is not used.
   */
  readonly node: (endpoint: Endpoint) => NodeOptions;
  /**
   * Returns the id of an endpoint's node in the cluster, which patterns of `of()` are matched with; no `*` in it. @defaultValue the
   * endpoint's key, `10.0.0.1:3306`
   */
  readonly id?: ((endpoint: Endpoint) => string) | undefined;
  /**
   * Stages that decide which endpoints are in the cluster, by the endpoints' data alone: `conditions()`, `subset()`, `zone()`. mysql2 knows
   * no standby, so endpoints on standby are left out. @defaultValue [conditions()]
   */
  readonly stages?: readonly StageFactory[] | undefined;
  /** How long callers may keep connections to an endpoint that left, in ms; Infinity = as long as they want. @defaultValue 30000 */
  readonly drainTimeoutMs?: number | undefined;
  /** How long `ready()` waits for the endpoints to be known, and then for a first node, in ms. @defaultValue 10000 */
  readonly startTimeoutMs?: number | undefined;
  /**
   * How a server is tried before its node is added, and how often: `connectTimeoutMs`, `maxConnecting`, `reconnectInitialMs` and
   * `reconnectMaxMs`. @defaultValue {}, see `PoolOptions`
   * @see docs/reference/options.md#pool
   */
  readonly pool?:
    | Pick<PoolOptions, 'connectTimeoutMs' | 'maxConnecting' | 'reconnectInitialMs' | 'reconnectMaxMs'>
    | undefined;
  /** Notified of the balancer's events. @defaultValue none */
  readonly observer?: Observer | undefined;
  /** The clock for all times, for tests. @defaultValue the system's clock */
  readonly clock?: Clock | undefined;
  /** The source of all random numbers, for tests. @defaultValue the system's randomness */
  readonly rng?: Rng | undefined;
}

/** The options of `followService` after defaults were filled in and everything was checked. */
interface ResolvedFollowOptions extends ClusterNodesOptions {
  readonly observer: Observer;
  /** The options that are passed on to `createBalancer`, which checks them itself. */
  readonly balancing: Omit<BalancerOptions<never>, 'transport' | 'observer'>;
}

/** Keeps the nodes of a user's own PoolCluster in step with the endpoints of a Service. */
export interface ServiceFollower extends AsyncDisposable {
  /**
   * Resolves once every endpoint of the first set was tried and at least one is in the cluster. Rejects with EVENKEEL_OPTION (a cluster
   * without `restoreNodeTimeout`), _NO_ENDPOINTS, _NOT_READY, _RESOLVE, _FORBIDDEN or _CLOSED, or the signal's reason; following goes on.
   */
  ready(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
  /** Returns which endpoints there are, and which of them are in the cluster (`ready`). */
  snapshot(): BalancerSnapshot;
  /** The ids of the nodes in the cluster now, including those that are leaving. */
  readonly nodeIds: readonly string[];
  /**
   * Stops following. Nodes stay in the cluster, which its owner ends. Waits for nodes that are leaving, at most for `drainTimeoutMs` or
   * until `signal` aborts; then they are cut. May be called again.
   */
  close(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
}

/**
 * Adds a node to `cluster` for every endpoint of a Service whose server accepts log-ins, and removes the nodes of endpoints that leave,
 * until the follower is closed. It only uses mysql2's public interface, so the cluster still chooses by RR, RANDOM or ORDER and has no
 * ejection, no weights and no limit on waiting; `createPoolCluster` has.
 *
 * The cluster must be made with `restoreNodeTimeout`, and with `canRetry` on (the default). Without the first, mysql2 ends the pools of
 * failing nodes for good, and throws the errors of connections that are still being opened where nobody can catch them; without the second,
 * callers would see that a node is leaving. Throws EVENKEEL_OPTION.
 *
 * @example
 * const cluster = mysql.createPoolCluster({ restoreNodeTimeout: 1_000 });
 * const follower = followService(cluster, {
 * resolver: 'mysql-read.shop:3306',
 * node: () => ({ user, password, database }),
 * });
 * await follower.ready();
 */
export function followService(cluster: AnyPoolCluster, options: FollowServiceOptions): ServiceFollower {
  const resolved = resolveFollowOptions(cluster, options);
  const nodes = new ClusterNodes(cluster, resolved, logIn);
  const changes = new Changes();
  const changeObserver: Observer = { subchannelChanged: () => changes.happened() };
  const balancer = createBalancer({
    ...resolved.balancing,
    observer: combineObservers([changeObserver, resolved.observer]),
    transport: nodes,
  });
  let closing: Promise<void> | undefined;

  const ready = async (readyOptions: SignalOption = {}): Promise<void> => {
    checkKeys('ready', readyOptions, signalOnly);
    const { signal } = readyOptions;
    await balancer.ready({ signal });
    // `ready` waits for all nodes, because a cluster with only some of its nodes would send everything to those.
    while (balancer.snapshot().endpoints.some(({ state }) => state === 'idle' || state === 'connecting')) {
      await changes.next(signal);
    }
    await nodes.fit();
    // A lease is acquired only for the errors of `acquire`, and given back at once.
    const lease = await balancer.acquire({ signal });
    lease.end(outcomes.notStarted);
  };
  const stop = async (): Promise<void> => {
    nodes.abandon();
    await balancer.close();
    await nodes.left();
  };
  const close = (closeOptions: SignalOption = {}): Promise<void> => {
    try {
      checkKeys('close', closeOptions, signalOnly);
    } catch (error) {
      return Promise.reject(error);
    }
    closing ??= stop();
    if (closeOptions.signal !== undefined) nodes.cutLeavingOn(closeOptions.signal);
    return closing;
  };
  return {
    ready,
    close,
    snapshot: () => balancer.snapshot(),
    get nodeIds() {
      return nodes.ids;
    },
    [Symbol.asyncDispose]: () => close(),
  };
}

/** The option of `ready` and `close`. */
interface SignalOption {
  readonly signal?: AbortSignal | undefined;
}
const signalOnly = ['signal'] as const;

const { connectTimeoutMs, maxConnecting, reconnectInitialMs, reconnectMaxMs } = poolTable.options;
const poolNames = Object.keys({ connectTimeoutMs, maxConnecting, reconnectInitialMs, reconnectMaxMs });

/** The options of `followService`. The balancer checks the resolver, the pool's options and the observer. */
export const followTable: OptionTable<Complete<FollowServiceOptions>> = optionTable('options', {
  resolver: requiredOption((_name, value) => value as Resolver | string),
  node: requiredOption((name, value) => {
    checkFunction(name, value);
    return value as FollowServiceOptions['node'];
  }),
  id: checkedOption<(endpoint: Endpoint) => string>(
    ({ key }) => key,
    (name, value) => {
      checkFunction(name, value);
      return value as (endpoint: Endpoint) => string;
    },
  ),
  stages: checkedOption<readonly StageFactory[]>([conditions()], (name, value) => {
    if (!Array.isArray(value)) throw optionError(name, 'a list of stages', value);
    return value;
  }),
  drainTimeoutMs: numberOption(30_000, { min: 0, max: 86_400_000, infinite: true }),
  startTimeoutMs: balancingTable.options.startTimeoutMs,
  pool: checkedOption<NonNullable<FollowServiceOptions['pool']>>({}, (name, value) => {
    checkKeys(name, value, poolNames);
    return value as NonNullable<FollowServiceOptions['pool']>;
  }),
  observer: checkedOption<Observer>({}, (_name, value) => value as Observer),
  clock: clockOption,
  rng: rngOption,
});

/** A stage that leaves out standby endpoints, because mysql2 has neither weights nor standby: an endpoint is in the cluster or not. */
const leaveOutStandby: StageFactory = () => ({ apply: (set) => set.filter(({ weight }) => weight > 0) });

/** Fills in defaults and checks every option of `followService`. Throws EVENKEEL_OPTION. */
export function resolveFollowOptions(cluster: AnyPoolCluster, options: FollowServiceOptions): ResolvedFollowOptions {
  for (const method of ['add', 'remove', 'getConnection', 'on', 'off'] as const) {
    const clusterMethod = (cluster as Partial<Record<typeof method, unknown>> | undefined)?.[method];
    if (typeof clusterMethod !== 'function')
      throw optionError('cluster', 'a PoolCluster of mysql2 3.12 or later', cluster);
  }
  const settings = followTable.resolve(options);
  const { resolver, node, id, stages, drainTimeoutMs, startTimeoutMs, pool, observer, clock, rng } = settings;
  return {
    node,
    id,
    drainTimeoutMs,
    observer,
    clock,
    rng,
    connectTimeoutMs: pool.connectTimeoutMs ?? poolDefaults.connectTimeoutMs,
    balancing: {
      resolver,
      stages: exactStages([...stages, leaveOutStandby]),
      // A node has no maximum age, and drains by itself, because no call of the balancer runs on it.
      pool: { ...pool, drainTimeoutMs: 0, maxConnectionAgeMs: Number.POSITIVE_INFINITY },
      startTimeoutMs,
      waitTimeoutMs: startTimeoutMs,
      clock,
      rng,
    },
  };
}
