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
   * What mysql2 needs to know of one endpoint: user, password, database, connectionLimit, ssl … Where to connect to is
   * ours: `host` is no more than the name TLS asks for, so give the Service's; `port` is not used.
   */
  readonly node: (endpoint: Endpoint) => NodeOptions;
  /** The node's id in the cluster, which patterns of `of()` are matched with; no `*` in it. @defaultValue its key, `10.0.0.1:3306` */
  readonly id?: ((endpoint: Endpoint) => string) | undefined;
  /**
   * Which endpoints are in the cluster, decided by their data alone: `conditions()`, `subset()`, `zone()`. mysql2 knows no
   * standby: what a stage stands by is left out. @defaultValue [conditions()]
   */
  readonly stages?: readonly StageFactory[] | undefined;
  /**
   * How long callers may keep the connections of an endpoint that left, in ms; Infinity = as long as they want.
   * @defaultValue 30000
   */
  readonly drainTimeoutMs?: number | undefined;
  /** How long `ready()` waits for a set, and then for a first node, in ms. @defaultValue 10000 */
  readonly startTimeoutMs?: number | undefined;
  /**
   * How a server is tried before its node is added, and how often: `connectTimeoutMs`, `maxConnecting`, `reconnectInitialMs` and
   * `reconnectMaxMs`. @defaultValue {}, see `PoolOptions`
   * @see docs/reference/options.md#pool
   */
  readonly pool?:
    | Pick<PoolOptions, 'connectTimeoutMs' | 'maxConnecting' | 'reconnectInitialMs' | 'reconnectMaxMs'>
    | undefined;
  /** Notified of what happens. @defaultValue none */
  readonly observer?: Observer | undefined;
  /** The clock for all times. For tests. @defaultValue the system's clock */
  readonly clock?: Clock | undefined;
  /** The source of all random numbers. For tests. @defaultValue the system's randomness */
  readonly rng?: Rng | undefined;
}

/** The options of `followService` after defaults were filled in and everything was checked. */
interface ResolvedFollowOptions extends ClusterNodesOptions {
  readonly observer: Observer;
  /** The options for `createBalancer`, which checks them itself. */
  readonly balancing: Omit<BalancerOptions<never>, 'transport' | 'observer'>;
}

/** Keeps a user's own PoolCluster in step with a Service. */
export interface ServiceFollower extends AsyncDisposable {
  /**
   * Resolves once every endpoint of the first set was tried and at least one is in the cluster. Rejects with
   * EVENKEEL_OPTION (a cluster without `restoreNodeTimeout`), _NO_ENDPOINTS, _NOT_READY, _RESOLVE, _FORBIDDEN or _CLOSED, or
   * the signal's reason; following goes on.
   */
  ready(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
  /** Which endpoints there are and which of them are in the cluster (`ready`). */
  snapshot(): BalancerSnapshot;
  /** The ids of the nodes in the cluster now, those that are leaving included. */
  readonly nodeIds: readonly string[];
  /**
   * Stops following. Nodes stay in the cluster, which is the caller's to end. Waits for those that were leaving, at most
   * `drainTimeoutMs` or until `signal` aborts; then they are cut. Idempotent.
   */
  close(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
}

/**
 * Adds a node to `cluster` for every endpoint of a Service whose server takes log-ins, and removes those that leave, until it is
 * closed. It only uses mysql2's public interface, so the cluster still chooses by RR, RANDOM or ORDER and has no ejection, no
 * weights and no limit on waiting; `createPoolCluster` has.
 *
 * The cluster must be made with `restoreNodeTimeout`, and with `canRetry` on (the default). Without the first, mysql2 ends the pools
 * of failing nodes for good, and throws the errors of connections that are still being opened where nobody can catch them; without
 * the second, callers would see that a node is leaving. Throws EVENKEEL_OPTION.
 *
 * @example
 * const cluster = mysql.createPoolCluster({ restoreNodeTimeout: 1_000 });
 * const follower = followService(cluster, {
 *   resolver: 'mysql-read.shop:3306',
 *   node: () => ({ user, password, database }),
 * });
 * await follower.ready();
 */
export function followService(cluster: AnyPoolCluster, options: FollowServiceOptions): ServiceFollower {
  const resolved = resolveFollowOptions(cluster, options);
  const nodes = new ClusterNodes(cluster, resolved, logIn);
  const changes = new Changes();
  const ours: Observer = { subchannelChanged: () => changes.happened() };
  const balancer = createBalancer({
    ...resolved.balancing,
    observer: combineObservers([ours, resolved.observer]),
    transport: nodes,
  });
  let closing: Promise<void> | undefined;

  const ready = async (readyOptions: SignalOption = {}): Promise<void> => {
    checkKeys('ready', readyOptions, signalOnly);
    const { signal } = readyOptions;
    await balancer.ready({ signal });
    // A cluster with only some of its nodes would send everything to them.
    while (balancer.snapshot().endpoints.some(({ state }) => state === 'idle' || state === 'connecting')) {
      await changes.next(signal);
    }
    await nodes.fit();
    // Acquired only for its errors; the lease itself is not used.
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

/** What `ready` and `close` take. */
interface SignalOption {
  readonly signal?: AbortSignal | undefined;
}
const signalOnly = ['signal'] as const;

const { connectTimeoutMs, maxConnecting, reconnectInitialMs, reconnectMaxMs } = poolTable.options;
const poolNames = Object.keys({ connectTimeoutMs, maxConnecting, reconnectInitialMs, reconnectMaxMs });

/** The resolver, the pool's options and the observer are checked by the balancer. */
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

/** mysql2 has neither weights nor standby: an endpoint is in the cluster or not. */
const leaveOutStandby: StageFactory = () => ({ apply: (set) => set.filter(({ weight }) => weight > 0) });

/** Fills in defaults and checks everything. Throws EVENKEEL_OPTION. */
export function resolveFollowOptions(cluster: AnyPoolCluster, options: FollowServiceOptions): ResolvedFollowOptions {
  for (const method of ['add', 'remove', 'getConnection', 'on', 'off'] as const) {
    const found = (cluster as Partial<Record<typeof method, unknown>> | undefined)?.[method];
    if (typeof found !== 'function') throw optionError('cluster', 'a PoolCluster of mysql2 3.12 or later', cluster);
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
      // A node has no age of its own, and its drain is not the balancer's: no call of the balancer runs on it.
      pool: { ...pool, drainTimeoutMs: 0, maxConnectionAgeMs: Number.POSITIVE_INFINITY },
      startTimeoutMs,
      waitTimeoutMs: startTimeoutMs,
      clock,
      rng,
    },
  };
}
