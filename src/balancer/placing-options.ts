import type { Leaving } from '../pool/leave-notice.js';
import { poolDefaults } from '../pool/pool-options.js';
import { checkBoolean, checkFunction, checkKeys, checkNumber } from '../runtime/check.js';
import type { Complete } from '../runtime/complete.js';

/** Why a connection should leave, and until when it may stay. */
export interface ConnectionLeaving extends Leaving {
  /**
   * `endpoint`: its endpoint leaves the Service. `rebalance`: it is above its share, and there are emptier endpoints. `close`:
   * the client itself is being closed.
   */
  readonly reason: 'endpoint' | 'rebalance' | 'close';
}

/** When and how fast connections are evened out. */
export interface RebalanceOptions {
  /** Share of the connections that may be asked to leave per minute. @defaultValue 0.1 */
  readonly ratioPerMinute?: number | undefined;
  /** Only while the endpoint with the most connections has more than this times the mean, per weight. @defaultValue 1.2 */
  readonly maxToMean?: number | undefined;
}

/** How connections that live for hours leave an endpoint. `H` is what the application holds: a socket, say. */
export interface PlacingOptions<H> {
  /**
   * Called when it is a connection's turn to leave. It may stay until `leaving.untilMs`; then it is closed as its protocol
   * closes. @defaultValue none
   */
  readonly onLeaving?: ((leaving: ConnectionLeaving, connection: H) => void) | undefined;
  /**
   * Whether a connection is closed when it is its turn to leave, rather than at the end of `pool.drainTimeoutMs`. For clients
   * that reconnect by themselves. @defaultValue false
   */
  readonly closeLeaving?: boolean | undefined;
  /**
   * Over how long the turns of an endpoint's connections are spread, in ms, so that they do not all arrive elsewhere at once.
   * @defaultValue a third of `pool.drainTimeoutMs`, at most 10000
   */
  readonly leaveSpreadMs?: number | undefined;
  /**
   * Connections above their share are asked to leave one by one, after a scale-out, say; who does not listen (`onLeaving`) is
   * closed. @defaultValue off; `{}` for on, see `RebalanceOptions`
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

export const rebalanceDefaults: Complete<RebalanceOptions> = Object.freeze({ ratioPerMinute: 0.1, maxToMean: 1.2 });

/** Most of the time it may take for all connections of an endpoint to have had their turn, unless told otherwise, in ms. */
const MAX_SPREAD_MS = 10_000;

/** The same, complete and checked. */
export interface ResolvedPlacingOptions {
  readonly closeLeaving: boolean;
  readonly leaveSpreadMs: number;
  readonly drainTimeoutMs: number;
  readonly rebalance: Complete<RebalanceOptions> | undefined;
}

/** Fills in defaults. Throws EVENKEEL_OPTION for what does not fit. */
export function resolvePlacingOptions(
  options: PlacingOptions<never>,
  drainTimeoutMs: number = poolDefaults.drainTimeoutMs,
): ResolvedPlacingOptions {
  const { rebalance, onLeaving } = options;
  if (onLeaving !== undefined) checkFunction('onLeaving', onLeaving);
  const usual = Math.min(MAX_SPREAD_MS, drainTimeoutMs / 3);
  const bounds = { min: 0, max: Math.min(drainTimeoutMs, 86_400_000) };
  return {
    closeLeaving: checkBoolean('closeLeaving', options.closeLeaving, false),
    leaveSpreadMs: checkNumber('leaveSpreadMs', options.leaveSpreadMs, usual, bounds),
    drainTimeoutMs,
    rebalance: rebalance === undefined ? undefined : resolveRebalance(rebalance),
  };
}

function resolveRebalance(options: RebalanceOptions): Complete<RebalanceOptions> {
  checkKeys('rebalance', options, Object.keys(rebalanceDefaults));
  const { ratioPerMinute, maxToMean } = rebalanceDefaults;
  return {
    ratioPerMinute: checkNumber('rebalance.ratioPerMinute', options.ratioPerMinute, ratioPerMinute, {
      above: 0,
      max: 60,
    }),
    maxToMean: checkNumber('rebalance.maxToMean', options.maxToMean, maxToMean, { min: 1 }),
  };
}
