import type { Leaving } from '../pool/drain.js';
import { poolDefaults } from '../pool/pool-options.js';
import { checkNumber, optionError } from '../runtime/check.js';
import type { Complete, Filled } from '../runtime/complete.js';
import {
  booleanOption,
  checkedOption,
  functionOption,
  numberOption,
  type OptionTable,
  optionalNumber,
  optionTable,
} from '../runtime/options.js';

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
   * Called with `{ reason, untilMs, endpoint }` and the connection when it should leave; `reason` is `endpoint`, `rebalance` or
   * `close`. The connection may stay until `untilMs`, a time of `performance.now()`, and is then closed as its protocol does.
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
   * Moves connections above an endpoint's share one by one, after a scale-out, for example: `onLeaving` is called, and without it
   * the connection is closed. @defaultValue off; `{}` turns it on
   */
  readonly rebalance?: RebalanceOptions | undefined;
}

export const rebalanceTable: OptionTable<Complete<RebalanceOptions>> = optionTable('rebalance', {
  ratioPerMinute: numberOption(0.1, { above: 0, max: 60 }),
  maxToMean: numberOption(1.2, { min: 1 }),
});

/** The largest default of `leaveSpreadMs`, in ms. */
const MAX_SPREAD_MS = 10_000;

type PlacingSettings = Filled<Omit<PlacingOptions<never>, 'rebalance'>, 'onLeaving' | 'leaveSpreadMs'> & {
  /** Complete; undefined = connections are not moved for balance. */
  readonly rebalance: Complete<RebalanceOptions> | undefined;
};

/** `PlacingOptions`, with defaults and bounds. */
export const placingTable: OptionTable<PlacingSettings> = optionTable('options', {
  onLeaving: functionOption<NonNullable<PlacingOptions<never>['onLeaving']>>(),
  closeLeaving: booleanOption(false),
  leaveSpreadMs: optionalNumber({ min: 0, max: 86_400_000 }),
  rebalance: checkedOption<Complete<RebalanceOptions> | undefined>(undefined, (_name, value) =>
    rebalanceTable.resolve(value),
  ),
});

/** The options of placed connections after defaults were filled in and everything was checked. */
export type ResolvedPlacingOptions = Complete<Omit<PlacingSettings, 'onLeaving' | 'rebalance'>> &
  Pick<PlacingSettings, 'rebalance'> & {
    /** `drainTimeoutMs` of `pool`: how long connections to an endpoint that left may stay, in ms. */
    readonly drainTimeoutMs: number;
  };

/** Fills in the defaults of the options of placed connections. Throws EVENKEEL_OPTION for invalid values. */
export function resolvePlacingOptions(
  options: PlacingOptions<never>,
  drainTimeoutMs: number = poolDefaults.drainTimeoutMs,
): ResolvedPlacingOptions {
  checkNumber('pool.drainTimeoutMs', drainTimeoutMs, 0, { min: 0, infinite: true });
  const usual = Math.min(MAX_SPREAD_MS, drainTimeoutMs / 3);
  const { closeLeaving, leaveSpreadMs = usual, rebalance } = placingTable.resolveOwn(options);
  if (leaveSpreadMs > drainTimeoutMs) {
    throw optionError('leaveSpreadMs', `at most pool.drainTimeoutMs (${drainTimeoutMs})`, leaveSpreadMs);
  }
  return { closeLeaving, leaveSpreadMs, drainTimeoutMs, rebalance };
}
