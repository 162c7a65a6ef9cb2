import type { BackoffOptions } from '../runtime/backoff.js';
import { checkKeys, checkNumber } from '../runtime/check.js';
import type { Complete } from '../runtime/complete.js';

/** How connections are opened, kept and closed. */
export interface PoolOptions {
  /** Time to open one connection, in ms. @defaultValue 2000 */
  readonly connectTimeoutMs?: number | undefined;
  /** How many connections may be opening at once, so that a start or rollout causes no connection storm. @defaultValue 32 */
  readonly maxConnecting?: number | undefined;
  /** First pause after a failed connection, in ms; grows × 1.6, ± 20 %. @defaultValue 200 */
  readonly reconnectInitialMs?: number | undefined;
  /** Longest pause after a failed connection, in ms. @defaultValue 3000 */
  readonly reconnectMaxMs?: number | undefined;
  /**
   * How long calls may take to finish on an endpoint that left, in ms; Infinity = no limit. An idle endpoint is kept for the
   * same time in case it returns, but never longer than 30 s. @defaultValue 30000
   */
  readonly drainTimeoutMs?: number | undefined;
  /**
   * Mean age at which a connection is replaced, in ms, ± 50 %; Infinity = never. It gets no new calls then; running ones take as long
   * as they want. @defaultValue 1800000 (30 min)
   */
  readonly maxConnectionAgeMs?: number | undefined;
}

/** The same, complete. */
export interface ResolvedPoolOptions {
  readonly connectTimeoutMs: number;
  readonly maxConnecting: number;
  readonly reconnect: BackoffOptions;
  readonly drainTimeoutMs: number;
  readonly maxConnectionAgeMs: number;
}

export const poolDefaults: Complete<PoolOptions> = Object.freeze({
  connectTimeoutMs: 2_000,
  maxConnecting: 32,
  reconnectInitialMs: 200,
  reconnectMaxMs: 3_000,
  drainTimeoutMs: 30_000,
  maxConnectionAgeMs: 1_800_000,
});

/** Fills in defaults. Throws EVENKEEL_OPTION for invalid values. */
export function resolvePoolOptions(options: PoolOptions = {}): ResolvedPoolOptions {
  checkKeys('pool', options, Object.keys(poolDefaults));
  const initialMs = checkNumber(
    'pool.reconnectInitialMs',
    options.reconnectInitialMs,
    poolDefaults.reconnectInitialMs,
    {
      min: 1,
      max: 600_000,
    },
  );
  return {
    connectTimeoutMs: checkNumber('pool.connectTimeoutMs', options.connectTimeoutMs, poolDefaults.connectTimeoutMs, {
      min: 1,
      max: 600_000,
    }),
    maxConnecting: checkNumber('pool.maxConnecting', options.maxConnecting, poolDefaults.maxConnecting, {
      min: 1,
      integer: true,
      infinite: true,
    }),
    reconnect: {
      initialMs,
      factor: 1.6,
      maxMs: checkNumber(
        'pool.reconnectMaxMs',
        options.reconnectMaxMs,
        Math.max(initialMs, poolDefaults.reconnectMaxMs),
        {
          min: initialMs,
          max: 3_600_000,
        },
      ),
      jitterRatio: 0.2,
    },
    drainTimeoutMs: checkNumber('pool.drainTimeoutMs', options.drainTimeoutMs, poolDefaults.drainTimeoutMs, {
      min: 0,
      max: 86_400_000,
      infinite: true,
    }),
    maxConnectionAgeMs: checkNumber(
      'pool.maxConnectionAgeMs',
      options.maxConnectionAgeMs,
      poolDefaults.maxConnectionAgeMs,
      { min: 1_000, infinite: true },
    ),
  };
}
