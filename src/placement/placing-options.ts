import type { Leaving } from '../pool/drain.js';
import { poolDefaults } from '../pool/pool-options.js';
import { checkBoolean, checkFunction, checkNumber } from '../runtime/check.js';
import type { Complete } from '../runtime/complete.js';
import { numberOption, type OptionTable, optionTable } from '../runtime/options.js';

/** Why a connection should leave, and how long it may stay. */
export interface ConnectionLeaving extends Leaving {
  /**
   * `endpoint`: its endpoint leaves the Service. `rebalance`: its endpoint has more than its share of connections. `close`: the client
   * is being closed.
   */
  readonly reason: 'endpoint' | 'rebalance' | 'close';
}

/** When and how fast connections are rebalanced. */
export interface RebalanceOptions {
  /** Share of the connections that may be moved per minute. @defaultValue 0.1 */
  readonly ratioPerMinute?: number | undefined;
  /** Connections are moved while the fullest endpoint has more than this many times the mean, per weight. @defaultValue 1.2 */
  readonly maxToMean?: number | undefined;
}

/** How long-lived connections leave an endpoint. `H` is the object the application holds, such as a socket. */
export interface PlacingOptions<H> {
  /**
   * Called when a connection should leave. It may stay until `leaving.untilMs`, and is then closed as its protocol does.
   * @defaultValue none
   */
  readonly onLeaving?: ((leaving: ConnectionLeaving, connection: H) => void) | undefined;
  /**
   * Whether a connection that should leave is closed at its turn rather than at the end of `pool.drainTimeoutMs`. For clients that
   * reconnect by themselves. @defaultValue false
   */
  readonly closeLeaving?: boolean | undefined;
  /**
   * The time over which the connections of an endpoint leave, in ms, so that they do not all reconnect at once.
   * @defaultValue a third of `pool.drainTimeoutMs`, at most 10000
   */
  readonly leaveSpreadMs?: number | undefined;
  /**
   * Moves connections above an endpoint's share one by one, after a scale-out, for example: `onLeaving` is called, and without it the
   * connection is closed. @defaultValue off; `{}` for on, see `RebalanceOptions`
   */
  readonly rebalance?: RebalanceOptions | undefined;
}

/** Names of `PlacingOptions`. */
export const placingOptionNames: readonly (keyof PlacingOptions<unknown>)[] = Object.freeze([
  'onLeaving',
  'closeLeaving',
  'leaveSpreadMs',
  'rebalance',
] as const);

export const rebalanceTable: OptionTable<Complete<RebalanceOptions>> = optionTable('rebalance', {
  ratioPerMinute: numberOption(0.1, { above: 0, max: 60 }),
  maxToMean: numberOption(1.2, { min: 1 }),
});

/** The defaults of `RebalanceOptions`, complete and frozen. */
export const rebalanceDefaults: Complete<RebalanceOptions> = rebalanceTable.defaults;

/** The largest default of `leaveSpreadMs`. */
const MAX_SPREAD_MS = 10_000;

/** The options of placed connections after defaults were filled in and everything was checked. */
export interface ResolvedPlacingOptions {
  /** As in `PlacingOptions`. */
  readonly closeLeaving: boolean;
  /** As in `PlacingOptions`, in ms. */
  readonly leaveSpreadMs: number;
  /** That of `pool`: how long connections to an endpoint that left may stay, in ms. */
  readonly drainTimeoutMs: number;
  /** As in `PlacingOptions`, complete; undefined = connections are not moved for balance. */
  readonly rebalance: Complete<RebalanceOptions> | undefined;
}

/** Fills in defaults. Throws EVENKEEL_OPTION for invalid values. */
export function resolvePlacingOptions(
  options: PlacingOptions<never>,
  givenDrainTimeoutMs?: number,
): ResolvedPlacingOptions {
  const { rebalance, onLeaving } = options;
  const drainTimeoutMs = checkNumber('pool.drainTimeoutMs', givenDrainTimeoutMs, poolDefaults.drainTimeoutMs, {
    min: 0,
    infinite: true,
  });
  if (onLeaving !== undefined) checkFunction('onLeaving', onLeaving);
  const usual = Math.min(MAX_SPREAD_MS, drainTimeoutMs / 3);
  const bounds = { min: 0, max: Math.min(drainTimeoutMs, 86_400_000) };
  return {
    closeLeaving: checkBoolean('closeLeaving', options.closeLeaving, false),
    leaveSpreadMs: checkNumber('leaveSpreadMs', options.leaveSpreadMs, usual, bounds),
    drainTimeoutMs,
    rebalance: rebalance === undefined ? undefined : rebalanceTable.resolve(rebalance),
  };
}
