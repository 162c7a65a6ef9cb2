import type { Recorder } from '../call/recording.js';
import type { LimitFactory } from '../limit/limit.js';
import type { LoadFactory } from '../load/load.js';
import { relativeLatency } from '../load/relative-latency.js';
import { type Observer, observerEventNames } from '../observe/observer.js';
import type { PickerFactory } from '../picker/picker.js';
import { preferenceOrder } from '../picker/preference-order.js';
import { type PoolOptions, type ResolvedPoolOptions, resolvePoolOptions } from '../pool/pool-options.js';
import type { Transport } from '../pool/transport.js';
import type { Resolver } from '../resolver/resolver.js';
import { resolverFrom } from '../resolver/target.js';
import { type RetryOptions, resolveRetryOptions } from '../retry/retry-options.js';
import { checkBoolean, checkFunction, checkKeys, checkNumber, optionError } from '../runtime/check.js';
import { type Clock, systemClock } from '../runtime/clock.js';
import { type Rng, systemRng } from '../runtime/rng.js';
import type { StageFactory } from '../stage/stage.js';
import { stagesOf } from '../stage/standard-stages.js';
import { checkLimit, checkLoad, checkPicker, checkStages } from './plugged-in.js';

/** Options that every entry point accepts in addition to its own: how to choose, how long to wait, what to retry. */
export interface BalancingOptions {
  /**
   * Where endpoints come from: a resolver, or a target string such as `orders.shop:8080`. @defaultValue the entry point's own
   * target
   */
  readonly resolver?: Resolver | string | undefined;
  /** How an endpoint is chosen. @defaultValue preferenceOrder() */
  readonly picker?: PickerFactory | undefined;
  /** How load is measured. @defaultValue relativeLatency() */
  readonly load?: LoadFactory | undefined;
  /**
   * How many calls may run at once; the others wait, and are shed when they wait long: `adaptive()`, or `fixed(n)`.
   * @defaultValue no limit
   */
  readonly limit?: LimitFactory | undefined;
  /**
   * Which endpoints are eligible: stages to add to the standard ones (conditions, outlierEjection, pushback, panic), or to take their place by
   * name; `without('outlierEjection')` takes one out. Stages of your own run first. @defaultValue []
   */
  readonly stages?: readonly StageFactory[] | undefined;
  /** Which attempts are retried on another endpoint, and the budget for it. @defaultValue {}, see `RetryOptions` */
  readonly retry?: RetryOptions | undefined;
  /** How the connections to endpoints are kept. @defaultValue {}, see `PoolOptions` */
  readonly pool?: PoolOptions | undefined;
  /** How long a caller waits for an endpoint that can take the call, in ms. @defaultValue 5000 */
  readonly waitTimeoutMs?: number | undefined;
  /** How many callers may wait at once; each takes about 2 kB besides its request. @defaultValue 20000 */
  readonly maxWaiting?: number | undefined;
  /**
   * Whether callers wait for the first endpoint of an empty Service (scale from zero) or fail immediately. @defaultValue false
   */
  readonly waitForEndpoints?: boolean | undefined;
  /** How long `ready()` waits for the first set, in ms. @defaultValue 10000 */
  readonly startTimeoutMs?: number | undefined;
  /**
   * A call whose caller gave up without a first byte after about this long counts as a timeout of the endpoint, in ms. Three
   * times the 99th percentile of all calls, if that is larger. @defaultValue 1000
   */
  readonly stalledAfterMs?: number | undefined;
  /** Event hooks, called synchronously: keep them fast. Errors they throw are swallowed. @defaultValue none */
  readonly observer?: Observer | undefined;
  /**
   * Keeps the last picks and what they went by, for `evenkeel explain` and `evenkeel replay`: `flightRecorder()` of
   * `evenkeel/recorder`. One may serve several balancers. @defaultValue none
   */
  readonly recorder?: Recorder | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
  /** For tests. */
  readonly rng?: Rng | undefined;
}

/** Options of `createBalancer`. */
export interface BalancerOptions<C> extends BalancingOptions {
  /** Where endpoints come from: a resolver, or a target string such as `orders.shop:8080`. */
  readonly resolver: Resolver | string;
  /** How connections are opened. */
  readonly transport: Transport<C>;
}

/** `BalancerOptions` after defaults were filled in and everything was checked. */
export interface ResolvedBalancerOptions<C> {
  readonly resolver: Resolver;
  readonly transport: Transport<C>;
  readonly picker: PickerFactory;
  readonly load: LoadFactory;
  readonly limit: LimitFactory | undefined;
  readonly stages: readonly StageFactory[];
  readonly retry: RetryOptions;
  readonly pool: ResolvedPoolOptions;
  readonly waitTimeoutMs: number;
  readonly maxWaiting: number;
  readonly waitForEndpoints: boolean;
  readonly startTimeoutMs: number;
  readonly stalledAfterMs: number;
  readonly observer: Observer;
  readonly recorder: Recorder | undefined;
  readonly clock: Clock;
  readonly rng: Rng;
}

/** Defaults of the numeric options; see `docs/reference/options.md`. */
export const balancerDefaults: {
  readonly waitTimeoutMs: number;
  readonly maxWaiting: number;
  readonly waitForEndpoints: boolean;
  readonly startTimeoutMs: number;
  readonly stalledAfterMs: number;
} = Object.freeze({
  waitTimeoutMs: 5_000,
  maxWaiting: 20_000,
  waitForEndpoints: false,
  startTimeoutMs: 10_000,
  stalledAfterMs: 1_000,
});

/** Names of `BalancingOptions`: adapters pass these on and keep the others. */
export const balancingOptionNames: readonly (keyof BalancingOptions)[] = Object.freeze([
  'resolver',
  'picker',
  'load',
  'limit',
  'stages',
  'retry',
  'pool',
  'waitTimeoutMs',
  'maxWaiting',
  'waitForEndpoints',
  'startTimeoutMs',
  'stalledAfterMs',
  'observer',
  'recorder',
  'clock',
  'rng',
] as const);

/** Checks the options of an entry point before it has a transport. Throws as `resolveBalancerOptions` does. */
export function checkBalancingOptions(options: BalancingOptions): void {
  const unused = { watch: () => {}, connect: () => {} } as unknown as Resolver & Transport<unknown>;
  resolveBalancerOptions({ ...options, resolver: options.resolver ?? unused, transport: unused });
}

/** Fills in defaults and checks everything. Throws EVENKEEL_OPTION with the field and the invalid value. */
export function resolveBalancerOptions<C>(options: BalancerOptions<C>): ResolvedBalancerOptions<C> {
  checkKeys('options', options, [...balancingOptionNames, 'transport']);
  const { resolver, transport, picker = preferenceOrder(), load = relativeLatency(), stages = [], limit } = options;
  if (typeof resolver !== 'string') {
    if (typeof resolver !== 'object' || resolver === null) {
      throw optionError('resolver', 'a resolver or a target string', resolver);
    }
    checkFunction('resolver.watch', resolver.watch);
  }
  if (typeof transport !== 'object' || transport === null) throw optionError('transport', 'a transport', transport);
  checkFunction('transport.connect', transport.connect);
  checkPicker(picker);
  checkLoad(load);
  if (limit !== undefined) checkLimit(limit);
  checkStages(stages);
  const { observer = {}, recorder, clock = systemClock, rng = systemRng } = options;
  checkObserver(observer);
  if (recorder !== undefined && typeof recorder?.begin !== 'function') {
    throw optionError('recorder', 'a recorder such as flightRecorder(), with its parentheses', recorder);
  }
  if (typeof clock !== 'object' || clock === null)
    throw optionError('clock', 'a clock with now, timer and defer', clock);
  checkFunction('clock.now', clock.now);
  checkFunction('clock.timer', clock.timer);
  checkFunction('clock.defer', clock.defer);
  checkFunction('rng.next', rng?.next);
  const milliseconds = { min: 0, max: 86_400_000 };
  return {
    resolver: typeof resolver === 'string' ? resolverFrom(resolver) : resolver,
    transport,
    picker,
    load,
    limit,
    stages: stagesOf(stages),
    retry: resolveRetryOptions(options.retry),
    pool: resolvePoolOptions(options.pool),
    waitTimeoutMs: checkNumber('waitTimeoutMs', options.waitTimeoutMs, balancerDefaults.waitTimeoutMs, milliseconds),
    maxWaiting: checkNumber('maxWaiting', options.maxWaiting, balancerDefaults.maxWaiting, {
      min: 0,
      max: 1_000_000,
      integer: true,
    }),
    waitForEndpoints: checkBoolean('waitForEndpoints', options.waitForEndpoints, balancerDefaults.waitForEndpoints),
    startTimeoutMs: checkNumber(
      'startTimeoutMs',
      options.startTimeoutMs,
      balancerDefaults.startTimeoutMs,
      milliseconds,
    ),
    stalledAfterMs: checkNumber('stalledAfterMs', options.stalledAfterMs, balancerDefaults.stalledAfterMs, {
      min: 1,
      infinite: true,
    }),
    observer,
    recorder,
    clock,
    rng,
  };
}

function checkObserver(observer: Observer): void {
  if (typeof observer !== 'object' || observer === null || Array.isArray(observer)) {
    throw optionError('observer', 'an object of hooks', observer);
  }
  // An instance of a class may have fields of its own.
  const prototype = Object.getPrototypeOf(observer);
  if (prototype === Object.prototype || prototype === null) checkKeys('observer', observer, observerEventNames);
  for (const event of observerEventNames) {
    if (observer[event] !== undefined) checkFunction(`observer.${event}`, observer[event]);
  }
}
