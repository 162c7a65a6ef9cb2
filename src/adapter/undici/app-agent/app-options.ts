import type { Dispatcher } from 'undici';
import { type Clock, resolverFrom, systemClock, type TargetOptions } from '../../../index.js';
import { checkClusterDomain } from '../../http/origin.js';
import {
  balancingOptionNames,
  checkAskForReports,
  checkBalancingOptions,
  checkFunction,
  checkKeys,
  checkNumber,
  optionError,
  Propagation,
  pickNames,
  type ServiceRule,
} from '../../kit/index.js';
import {
  callRules,
  type DispatcherOptions,
  dispatcherOptionNames,
  undiciConnectionOptionNames,
  type WebSocketOptions,
  webSocketLimits,
} from '../options.js';
import { undiciTransport } from '../transport.js';

/** How one Service is balanced. It never gets requests for other hosts, so it has no `fallbackDispatcher`. */
export type ServiceOptions = Omit<DispatcherOptions, 'fallbackDispatcher'>;

/** Options of `appInterceptor`. */
export interface AppInterceptorOptions {
  /**
   * Which hosts are Services: a list of their names, in any of their spellings, and no others; or a function that returns true,
   * false, or undefined for "DNS decides".
   * @defaultValue DNS decides: a host is a Service if `<host>.svc.<cluster domain>.` exists
   */
  readonly services?: ServiceRule | undefined;
  /**
   * How Services are balanced: the same for all (without a resolver), or a function called once per origin when it is first
   * used; undefined = the defaults.
   */
  readonly options?: ServiceOptions | ((origin: URL) => ServiceOptions | undefined);
  /** How Services and their pods are found. @defaultValue from this pod's environment */
  readonly discovery?: TargetOptions | undefined;
  /**
   * A Service that is unused for this long (up to twice as long) and has nothing running is closed, in ms. @defaultValue 600000
   */
  readonly idleTimeoutMs?: number | undefined;
  /**
   * How many Services (scheme, name and port) are balanced at once. A new one replaces one without a request for 10 s; if there
   * is none, the new one is left alone. @defaultValue 500
   */
  readonly maxServices?: number | undefined;
  /** How long DNS may take to say whether a host is a Service before the host is left alone, in ms. @defaultValue 2000 */
  readonly lookupTimeoutMs?: number | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
}

/** Options of `createAppAgent`. */
export interface AppAgentOptions extends AppInterceptorOptions {
  /**
   * Where all other requests go. Closing it stays up to the caller.
   * @defaultValue an undici Agent of its own, created on first use
   */
  readonly fallbackDispatcher?: Dispatcher | undefined;
  /**
   * Limits for WebSockets to Services without their own setting. WebSockets to other hosts follow `fallbackDispatcher`, if
   * given.
   * @defaultValue undici's own limits
   */
  readonly webSocket?: WebSocketOptions | undefined;
}

/** Defaults of the numeric options; see `docs/reference/options-http.md`. */
export const appAgentDefaults: {
  readonly idleTimeoutMs: number;
  readonly maxServices: number;
  readonly lookupTimeoutMs: number;
} = Object.freeze({ idleTimeoutMs: 600_000, maxServices: 500, lookupTimeoutMs: 2_000 });

/** Names of `AppInterceptorOptions`. */
export const serviceInterceptorOptionNames: readonly (keyof AppInterceptorOptions)[] = Object.freeze([
  'services',
  'options',
  'discovery',
  'idleTimeoutMs',
  'maxServices',
  'lookupTimeoutMs',
  'clock',
] as const);

/** The same, complete and checked; `services` is checked by what it is for. */
export interface ResolvedServiceOptions {
  readonly services: ServiceRule | undefined;
  /** May throw what a function of the user throws, or an error about its result. */
  readonly optionsOf: (origin: URL) => ServiceOptions;
  readonly discovery: TargetOptions | undefined;
  readonly idleTimeoutMs: number;
  readonly maxServices: number;
  readonly lookupTimeoutMs: number;
  readonly clock: Clock;
}

/** Fills in defaults and checks everything. Throws EVENKEEL_OPTION. */
export function resolveServiceOptions(options: AppInterceptorOptions): ResolvedServiceOptions {
  checkKeys('options', options, serviceInterceptorOptionNames);
  const { services, discovery, clock = systemClock } = options;
  checkFunction('clock.timer', clock?.timer);
  // This reports what is wrong with them.
  if (discovery !== undefined) resolverFrom('service.namespace:80', discovery);
  const ms = { min: 1, max: 86_400_000 };
  const { idleTimeoutMs, maxServices, lookupTimeoutMs } = appAgentDefaults;
  return {
    services,
    optionsOf: resolveOptionsOf(options.options),
    discovery,
    idleTimeoutMs: checkNumber('idleTimeoutMs', options.idleTimeoutMs, idleTimeoutMs, ms),
    maxServices: checkNumber('maxServices', options.maxServices, maxServices, { min: 1, max: 100_000, integer: true }),
    lookupTimeoutMs: checkNumber('lookupTimeoutMs', options.lookupTimeoutMs, lookupTimeoutMs, {
      min: 1,
      max: 600_000,
    }),
    clock,
  };
}

function resolveOptionsOf(options: AppInterceptorOptions['options']): (origin: URL) => ServiceOptions {
  if (typeof options === 'function') {
    return (origin) => {
      const own = options(new URL(origin)) ?? {};
      // It has no keys of its own, and would be taken for the defaults.
      if (own instanceof Promise) throw optionError('options()', 'options, not a promise of them', own);
      checkServiceKeys('options()', own);
      return own;
    };
  }
  if (options === undefined) return () => ({});
  checkServiceKeys('options', options);
  if (options.resolver !== undefined) {
    throw optionError('options.resolver', 'left out: it would send every Service to the same pods', 'a resolver');
  }
  const { key, priority, clusterDomain, webSocket } = options;
  if (key !== undefined) checkFunction('options.key', key);
  if (priority !== undefined) checkFunction('options.priority', priority);
  checkAskForReports('options.askForReports', options.askForReports);
  new Propagation(options.propagate);
  if (clusterDomain !== undefined) checkClusterDomain(clusterDomain);
  checkBalancingOptions(pickNames(options, balancingOptionNames));
  callRules(options);
  webSocketLimits(webSocket);
  undiciTransport({ origin: 'https://service.namespace', ...pickNames(options, undiciConnectionOptionNames) });
  const { tls: _tls, allowH2: _allowH2, ...plain } = options;
  // These are for Services over TLS, and refused for others.
  return ({ protocol }) => (protocol === 'https:' ? options : plain);
}

function checkServiceKeys(name: string, options: unknown): void {
  checkKeys(
    name,
    options,
    dispatcherOptionNames.filter((key) => key !== 'fallbackDispatcher'),
  );
}
