import type { PoolOptions as NodeOptions } from 'mysql2';
import {
  type BalancerOptions,
  balancerDefaults,
  type Clock,
  conditions,
  type Endpoint,
  type Observer,
  type PoolOptions,
  poolDefaults,
  type Resolver,
  type Rng,
  type StageFactory,
  systemClock,
  systemRng,
} from '../../../index.js';
import { checkFunction, checkKeys, checkNumber, optionError } from '../../kit/index.js';
import type { AnyPoolCluster } from './user-cluster.js';

/** Options of `followService`. */
export interface FollowServiceOptions {
  /** Where endpoints come from: a resolver, or a target string such as `mysql-read.shop:3306`. */
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
  /** How a server is tried before its node is added, and how often. @defaultValue {}, see `PoolOptions` */
  readonly pool?: Pick<PoolOptions, (typeof poolNames)[number]> | undefined;
  /** Is told what happens. @defaultValue none */
  readonly observer?: Observer | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
  /** For tests. */
  readonly rng?: Rng | undefined;
}

/** The same, complete and checked. */
export interface ResolvedFollowOptions {
  readonly node: (endpoint: Endpoint) => NodeOptions;
  readonly id: (endpoint: Endpoint) => string;
  readonly drainTimeoutMs: number;
  readonly observer: Observer;
  readonly clock: Clock;
  readonly rng: Rng;
  /** Of one attempt, in ms. */
  readonly connectTimeoutMs: number;
  /** For `createBalancer`, which checks these itself. */
  readonly balancing: Omit<BalancerOptions<never>, 'transport' | 'observer'>;
}

/** Defaults of the numeric options; see `docs/reference/options-mysql.md`. */
export const followDefaults: { readonly drainTimeoutMs: number } = Object.freeze({ drainTimeoutMs: 30_000 });

const names: readonly (keyof FollowServiceOptions)[] = [
  'resolver',
  'node',
  'id',
  'stages',
  'drainTimeoutMs',
  'startTimeoutMs',
  'pool',
  'observer',
  'clock',
  'rng',
];

const poolNames = ['connectTimeoutMs', 'maxConnecting', 'reconnectInitialMs', 'reconnectMaxMs'] as const;

/** mysql2 has neither weights nor standby: an endpoint is in the cluster or not. */
const leaveOutStandby: StageFactory = () => ({ apply: (set) => set.filter(({ weight }) => weight > 0) });

/** Fills in defaults and checks everything. Throws EVENKEEL_OPTION. */
export function resolveFollowOptions(cluster: AnyPoolCluster, options: FollowServiceOptions): ResolvedFollowOptions {
  for (const method of ['add', 'remove', 'getConnection', 'on', 'off'] as const) {
    const found = (cluster as Partial<Record<typeof method, unknown>> | undefined)?.[method];
    if (typeof found !== 'function') throw optionError('cluster', 'a PoolCluster of mysql2 3.12 or later', cluster);
  }
  checkKeys('options', options, names);
  const { resolver, node, id = ({ key }) => key, stages = [conditions()], pool = {}, observer = {} } = options;
  const { clock = systemClock, rng = systemRng } = options;
  checkFunction('node', node);
  checkFunction('id', id);
  if (!Array.isArray(stages)) throw optionError('stages', 'a list of stages', stages);
  checkKeys('pool', pool, poolNames);
  const startTimeoutMs = options.startTimeoutMs ?? balancerDefaults.startTimeoutMs;
  return {
    node,
    id,
    drainTimeoutMs: checkNumber('drainTimeoutMs', options.drainTimeoutMs, followDefaults.drainTimeoutMs, {
      min: 0,
      max: 86_400_000,
      infinite: true,
    }),
    observer,
    clock,
    rng,
    connectTimeoutMs: pool.connectTimeoutMs ?? poolDefaults.connectTimeoutMs,
    balancing: {
      resolver,
      stages: [...stages, leaveOutStandby],
      // A node has no age of its own, and its drain is not the balancer's: no call of the balancer runs on it.
      pool: { ...pool, drainTimeoutMs: 0, maxConnectionAgeMs: Number.POSITIVE_INFINITY },
      startTimeoutMs,
      waitTimeoutMs: startTimeoutMs,
      clock,
      rng,
    },
  };
}
