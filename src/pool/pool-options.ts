import { checkNumber } from '../runtime/check.js';
import type { Clock } from '../runtime/clock.js';
import type { Complete } from '../runtime/complete.js';
import { numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import { ownProperties } from '../runtime/own-properties.js';
import type { Rng } from '../runtime/rng.js';

/** Options for a balancer's connections: how they are opened, kept and closed. An invalid option throws EVENKEEL_OPTION. */
export interface PoolOptions {
  /** How long opening one connection may take, in ms. @defaultValue 2000 */
  readonly connectTimeoutMs?: number | undefined;
  /**
   * How many connections may be opening at once, so that a start or rollout causes no storm of connections. Endpoints that failed recently
   * get at most half of them, and together 50 attempts per second. @defaultValue 32
   */
  readonly maxConnecting?: number | undefined;
  /** The first pause after a connection failed, in ms. Each further pause is 1.6 times as long, ± 20 %. @defaultValue 200 */
  readonly reconnectInitialMs?: number | undefined;
  /**
   * The longest pause after a connection failed, in ms; at least `reconnectInitialMs`, which is the default if it is larger than 3000.
   * @defaultValue 3000
   */
  readonly reconnectMaxMs?: number | undefined;
  /**
   * How long calls may take to finish on an endpoint that left, in ms; Infinity = no limit. An idle endpoint that left is kept for this
   * time too in case it returns, but never longer than 30 s. Also limits `close`. @defaultValue 30000
   */
  readonly drainTimeoutMs?: number | undefined;
  /**
   * The mean age at which a connection is replaced, in ms, ± 50 %; Infinity = never. The new connection is opened first, and calls that run
   * on the old one may take as long as they want. @defaultValue 1800000 (30 min)
   */
  readonly maxConnectionAgeMs?: number | undefined;
}

/** The pool's options with every default filled in. */
export type ResolvedPoolOptions = Complete<PoolOptions>;

/** The options in `PoolOptions`, with their defaults and bounds. */
export const poolTable: OptionTable<Complete<PoolOptions>> = optionTable('pool', {
  connectTimeoutMs: numberOption(2_000, { min: 1, max: 600_000 }),
  maxConnecting: numberOption(32, { min: 1, integer: true, infinite: true }),
  reconnectInitialMs: numberOption(200, { min: 1, max: 600_000 }),
  reconnectMaxMs: numberOption(3_000, { min: 1, max: 3_600_000 }),
  drainTimeoutMs: numberOption(30_000, { min: 0, max: 86_400_000, infinite: true }),
  maxConnectionAgeMs: numberOption(1_800_000, { min: 1_000, infinite: true }),
});

/** The defaults of `PoolOptions`, complete and frozen. */
export const poolDefaults: Complete<PoolOptions> = poolTable.defaults;

/** Fills in the defaults of the pool's options and checks them. Throws EVENKEEL_OPTION. */
export function resolvePoolOptions(options: PoolOptions = {}): ResolvedPoolOptions {
  const resolved = poolTable.resolve(options);
  const { reconnectInitialMs } = resolved;
  const reconnectMaxMs = checkNumber(
    'pool.reconnectMaxMs',
    ownProperties(options).reconnectMaxMs,
    Math.max(reconnectInitialMs, poolDefaults.reconnectMaxMs),
    { min: reconnectInitialMs, max: 3_600_000 },
  );
  return { ...resolved, reconnectMaxMs };
}

/** What every part of a pool is given. */
export interface PoolContext {
  readonly clock: Clock;
  readonly rng: Rng;
  readonly options: ResolvedPoolOptions;
}
