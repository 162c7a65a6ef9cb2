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

/** Says why a connection should leave, and how long it may stay. */
export interface ConnectionLeaving extends Leaving {
  /**
   * `endpoint`: its endpoint leaves the Service. `rebalance`: its endpoint has more than its share of connections. `close`: the client
   * is being closed.
   */
  readonly reason: 'endpoint' | 'rebalance' | 'close';
}

/** Options for `rebalance`: when connections are moved for balance, and how fast. An invalid option throws EVENKEEL_OPTION. */
export interface RebalanceOptions {
  /** The share of all connections that may be moved per minute. @defaultValue 0.1 */
  readonly ratioPerMinute?: number | undefined;
  /**
   * Connections are moved while the fullest endpoint has more than this many times the mean number of connections, by weight. @defaultValue
   * 1.2
   */
  readonly maxToMean?: number | undefined;
}

/** Options that decide how long-lived connections leave an endpoint. `H` is the object that the application holds, such as a socket. */
export interface PlacingOptions<H> {
  /**
   * Called with `{ reason, untilMs, endpoint }` and the connection when that should leave; `reason` is `endpoint`, `rebalance` or `close`.
   * The connection may stay until `untilMs`, a time of `performance.now()`; then it is closed with its protocol's own goodbye.
   * @defaultValue none
   */
  readonly onLeaving?: ((leaving: ConnectionLeaving, connection: H) => void) | undefined;
  /**
   * Whether a connection is closed at the moment when it should leave, rather than at the end of `pool.drainTimeoutMs`. For clients that
   * reconnect by themselves. @defaultValue false
   */
  readonly closeLeaving?: boolean | undefined;
  /**
   * The time over which the connections of an endpoint leave, in ms, so that they do not all reconnect at once. @defaultValue a third of
   * `pool.drainTimeoutMs`, at most 10000
   */
  readonly leaveSpreadMs?: number | undefined;
  /**
   * Moves connections beyond an endpoint's share one by one, for example after a scale-out: `onLeaving` is called, and without it the
   * connection is closed. @defaultValue off; `{}` turns it on
   */
  readonly rebalance?: RebalanceOptions | undefined;
}

export const rebalanceTable: OptionTable<Complete<RebalanceOptions>> = optionTable('rebalance', {
  ratioPerMinute: numberOption(0.1, { above: 0, max: 60 }),
  maxToMean: numberOption(1.2, { min: 1 }),
});

/** The default of `leaveSpreadMs` is at most this, in ms. */
const MAX_SPREAD_MS = 10_000;

type PlacingSettings = Filled<Omit<PlacingOptions<never>, 'rebalance'>, 'onLeaving' | 'leaveSpreadMs'> & {
  /** The checked options of `rebalance`; undefined = connections are not moved for balance. */
  readonly rebalance: Complete<RebalanceOptions> | undefined;
};

/** The options in `PlacingOptions`, with their defaults and bounds. */
export const placingTable: OptionTable<PlacingSettings> = optionTable('options', {
  onLeaving: functionOption<NonNullable<PlacingOptions<never>['onLeaving']>>(),
  closeLeaving: booleanOption(false),
  leaveSpreadMs: optionalNumber({ min: 0, max: 86_400_000 }),
  rebalance: checkedOption<Complete<RebalanceOptions> | undefined>(undefined, (_name, value) =>
    rebalanceTable.resolve(value),
  ),
});

/** The options for long-lived connections, with defaults filled in and everything checked. */
export type ResolvedPlacingOptions = Complete<Omit<PlacingSettings, 'onLeaving' | 'rebalance'>> &
  Pick<PlacingSettings, 'rebalance'> & {
    /** How long connections to an endpoint that left may stay, in ms: `pool.drainTimeoutMs`. */
    readonly drainTimeoutMs: number;
  };

/** Fills in the defaults of the options for long-lived connections and checks them. Throws EVENKEEL_OPTION. */
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
