import type { LimitFactory } from '../limit/limit.js';
import { inFlight } from '../load/in-flight.js';
import type { LoadFactory } from '../load/load.js';
import { relativeLatency } from '../load/relative-latency.js';
import { type Observer, observerEventNames } from '../observe/observer.js';
import type { PickerFactory } from '../picker/picker.js';
import { rotatingAperture } from '../picker/rotating-aperture.js';
import { type PoolOptions, type ResolvedPoolOptions, resolvePoolOptions } from '../pool/pool-options.js';
import type { Transport } from '../pool/transport.js';
import type { Resolver } from '../resolver/resolver.js';
import { resolverFrom } from '../resolver/target.js';
import { type RetryOptions, resolveRetryOptions } from '../retry/retry-options.js';
import { checkFunction, checkKeys, optionError } from '../runtime/check.js';
import type { Clock } from '../runtime/clock.js';
import type { Complete, Filled } from '../runtime/complete.js';
import {
  booleanOption,
  checkedOption,
  clockOption,
  numberOption,
  type OptionTable,
  optionTable,
  requiredOption,
  rngOption,
} from '../runtime/options.js';
import { ownProperties } from '../runtime/own-properties.js';
import type { Rng } from '../runtime/rng.js';
import type { StageFactory } from '../stage/stage.js';
import { stagesOf } from '../stage/standard-stages.js';
import { checkLimit, checkLoad, checkPicker, checkStages } from './plugged-in.js';

/** Options that every entry point accepts in addition to its own: how to choose, how long to wait, what to retry. */
export interface BalancingOptions {
  /** Where endpoints come from: a resolver, or a target string such as `orders.shop:8080`. @defaultValue the entry point's own target */
  readonly resolver?: Resolver | string | undefined;
  /** How an endpoint is chosen. @defaultValue rotatingAperture() @see docs/reference/pickers.md */
  readonly picker?: PickerFactory | undefined;
  /**
   * How load is measured. @defaultValue relativeLatency(); inFlight() with `roundRobin()` and `random()`, which read no load
   * @see docs/reference/loads.md
   */
  readonly load?: LoadFactory | undefined;
  /**
   * How many calls may run at once: `adaptive()`, or `fixed(n)`. Further calls wait, and are shed when they wait long. With MySQL it
   * applies to statements only; it is not for long-lived connections. @defaultValue no limit @see docs/guide/overload.md
   */
  readonly limit?: LimitFactory | undefined;
  /**
   * Which endpoints are eligible: stages that are added to the standard ones (conditions, topologyHints, outlierEjection, pushback, panic), or that take
   * the place of the standard stage with their name; `without('outlierEjection')` takes one out. Your own stages run first. @defaultValue
   * [] @see docs/reference/stages.md
   */
  readonly stages?: readonly StageFactory[] | undefined;
  /** Which attempts are retried on another endpoint, and the budget that pays for retries. @defaultValue {}, see `RetryOptions` */
  readonly retry?: RetryOptions | undefined;
  /** How the connections to endpoints are kept. @defaultValue {}, see `PoolOptions` */
  readonly pool?: PoolOptions | undefined;
  /** How long a caller waits for an endpoint that can take the call, in ms. @defaultValue 5000 */
  readonly waitTimeoutMs?: number | undefined;
  /** How many callers may wait at once. Each takes about 2 kB besides its request. @defaultValue 20000 */
  readonly maxWaiting?: number | undefined;
  /**
   * Whether callers wait for the first endpoint of an empty Service (scale from zero) or fail immediately. @defaultValue false
   */
  readonly waitForEndpoints?: boolean | undefined;
  /**
   * Whether callers wait while every endpoint refuses connections, as they do when a pod restarts. With false, endpoints that refused
   * are dialed again at once for a caller that finds none, and it fails with EVENKEEL_CONNECT as soon as every one has refused; an
   * endpoint that does not answer is waited for. Not for long-lived connections; with gRPC calls say so themselves (`waitForReady`).
   * @defaultValue true
   */
  readonly waitWhileRefused?: boolean | undefined;
  /** How long `ready()` waits for the first set, in ms. @defaultValue 10000 */
  readonly startTimeoutMs?: number | undefined;
  /**
   * A call whose caller gave up, without a first byte, after about this many ms counts as a timeout of the endpoint. If three times the
   * 99th percentile of all latencies is larger, that counts instead. @defaultValue 1000
   */
  readonly stalledAfterMs?: number | undefined;
  /**
   * Event hooks, called synchronously: keep them fast. Errors they throw are swallowed. @defaultValue none
   * @see docs/reference/observer.md
   */
  readonly observer?: Observer | undefined;
  /** The clock by which the balancer measures all time; tests pass their own. @defaultValue the system's clock */
  readonly clock?: Clock | undefined;
  /** Where the balancer's random numbers come from; tests pass their own source. @defaultValue the system's randomness */
  readonly rng?: Rng | undefined;
}

/** The options of a balancer: `resolver` and `transport`, which it needs, and how it balances, all of which has defaults. */
export interface BalancerOptions<C> extends BalancingOptions {
  /**
   * Where endpoints come from: a resolver, or a target string such as `orders.shop:8080`. Entry points such as `createFetch` choose a
   * resolver themselves. @see docs/reference/targets.md
   */
  readonly resolver: Resolver | string;
  /** How connections are opened. Entry points such as `createFetch` bring their own transport. */
  readonly transport: Transport<C>;
}

/** `BalancerOptions` after defaults were filled in and everything was checked. */
export type ResolvedBalancerOptions<C> = Filled<Omit<BalancerOptions<C>, 'resolver' | 'pool'>, 'limit'> & {
  readonly resolver: Resolver;
  readonly pool: ResolvedPoolOptions;
};

/** `BalancingOptions` after defaults were filled in and everything was checked. */
type BalancingSettings = Omit<ResolvedBalancerOptions<unknown>, 'resolver' | 'transport'> & {
  /** The resolver; undefined if the options have none and the entry point is to choose one. */
  readonly resolver: Resolver | undefined;
};

const durations = { min: 0, max: 86_400_000 };

/** The options that every entry point accepts, with their defaults and bounds. */
export const balancingTable: OptionTable<BalancingSettings> = optionTable('options', {
  resolver: checkedOption<Resolver | undefined>(undefined, resolverOf),
  picker: {
    // The default picker is created for each balancer, as if the caller had passed it.
    get default() {
      return rotatingAperture();
    },
    check(_name: string, value: unknown) {
      checkPicker(value as PickerFactory);
      return value as PickerFactory;
    },
  },
  load: {
    // The default load is created for each balancer, because a load keeps what it has measured.
    get default() {
      return relativeLatency();
    },
    check(_name: string, value: unknown) {
      checkLoad(value as LoadFactory);
      return value as LoadFactory;
    },
  },
  limit: checkedOption<LimitFactory | undefined>(undefined, (_name, value) => {
    checkLimit(value as LimitFactory);
    return value as LimitFactory;
  }),
  stages: {
    get default() {
      return stagesOf([]);
    },
    check(_name: string, value: unknown) {
      checkStages(value as readonly StageFactory[]);
      return stagesOf(value as readonly StageFactory[]);
    },
  },
  retry: checkedOption<RetryOptions>(resolveRetryOptions(), (_name, value) =>
    resolveRetryOptions(value as RetryOptions),
  ),
  pool: checkedOption(resolvePoolOptions(), (_name, value) => resolvePoolOptions(value as PoolOptions)),
  waitTimeoutMs: numberOption(5_000, durations),
  maxWaiting: numberOption(20_000, { min: 0, max: 1_000_000, integer: true }),
  waitForEndpoints: booleanOption(false),
  waitWhileRefused: booleanOption(true),
  startTimeoutMs: numberOption(10_000, durations),
  stalledAfterMs: numberOption(1_000, { min: 1, infinite: true }),
  observer: checkedOption<Observer>({}, (_name, value) => {
    checkObserver(value as Observer);
    return value as Observer;
  }),
  clock: clockOption,
  rng: rngOption,
});

export const balancerTable: OptionTable<ResolvedBalancerOptions<unknown>> = optionTable('options', {
  ...balancingTable.options,
  resolver: requiredOption(resolverOf),
  transport: requiredOption((name, value) => {
    if (typeof value !== 'object' || value === null) throw optionError(name, 'a transport', value);
    checkFunction(`${name}.connect`, (value as Transport<unknown>).connect);
    return value as Transport<unknown>;
  }),
});

type BalancingDefaults = Pick<
  Complete<BalancingOptions>,
  'waitTimeoutMs' | 'maxWaiting' | 'waitForEndpoints' | 'startTimeoutMs' | 'stalledAfterMs'
>;

/** The defaults of the balancer's options, which adapters need; see `docs/reference/options.md`. */
export const balancerDefaults: BalancingDefaults = balancingTable.defaults;

/** Checks the balancer's options among those of an entry point, which has no transport yet. Throws EVENKEEL_OPTION. */
export function checkBalancingOptions(options: BalancingOptions): void {
  balancingTable.resolve(options);
}

/** Fills in defaults and checks everything. Throws EVENKEEL_OPTION with the field and the invalid value. */
export function resolveBalancerOptions<C>(options: BalancerOptions<C>): ResolvedBalancerOptions<C> {
  const resolved = balancerTable.resolve(options);
  const own = ownProperties(options);
  const isLoadRead = own.load !== undefined || resolved.picker.ignoresLoad !== true;
  return { ...resolved, load: isLoadRead ? resolved.load : inFlight(), transport: own.transport };
}

function resolverOf(name: string, value: unknown): Resolver {
  if (typeof value === 'string') return resolverFrom(value);
  if (typeof value !== 'object' || value === null) throw optionError(name, 'a resolver or a target string', value);
  checkFunction(`${name}.watch`, (value as Resolver).watch);
  return value as Resolver;
}

function checkObserver(observer: Observer): void {
  if (typeof observer !== 'object' || observer === null || Array.isArray(observer)) {
    throw optionError('observer', 'an object of hooks', observer);
  }
  // An observer that is an instance of a class may have fields of its own besides event hooks.
  const prototype = Object.getPrototypeOf(observer);
  if (prototype === Object.prototype || prototype === null) checkKeys('observer', observer, observerEventNames);
  for (const event of observerEventNames) {
    if (observer[event] !== undefined) checkFunction(`observer.${event}`, observer[event]);
  }
}
