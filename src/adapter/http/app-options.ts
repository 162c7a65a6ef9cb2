import type { ConnectionOptions } from 'node:tls';
import { type Clock, type Resolver, resolverFrom, type TargetOptions } from '../../index.js';
import {
  anyOption,
  checkedOption,
  checkKeys,
  clockOption,
  type Filled,
  numberOption,
  type OptionTable,
  optionError,
  optionTable,
  type ServiceRule,
} from '../kit/index.js';
import type { TlsOption } from './dial.js';
import { resolverOf } from './origin.js';

/** Options of what serves a whole app. */
export interface AppOptions<O> {
  /**
   * Which hosts are Services: a list of their names, in any of their spellings, and no others; or a function that returns true,
   * false, or undefined for "DNS decides".
   * @defaultValue DNS decides: a host is a Service if `<host>.svc.<cluster domain>.` exists
   */
  readonly services?: ServiceRule | undefined;
  /**
   * How Services are balanced: the options of `createDispatcher`, or for node:http those of `createAgent`, but without the
   * fallback. The same for all (then also without `resolver`), or a function called once per origin when it is first used;
   * undefined = the defaults. @defaultValue {}
   */
  readonly options?: O | ((origin: URL) => O | undefined);
  /**
   * How Services and their pods are found: `dns`, `kubernetes`, `allowAddresses` and so on. @defaultValue from this pod's
   * environment
   * @see docs/reference/targets.md
   */
  readonly discovery?: TargetOptions | undefined;
  /**
   * A Service that is unused for this long (up to twice as long) and has nothing running is closed, in ms. Its next request opens
   * it again. @defaultValue 600000
   */
  readonly idleTimeoutMs?: number | undefined;
  /**
   * How many Services (scheme, name and port) are balanced at once. A new one replaces one without a request for 10 s; if there
   * is none, the new one is left alone. @defaultValue 500
   */
  readonly maxServices?: number | undefined;
  /**
   * How long DNS may take to say whether a host is a Service before the host is left alone, in ms. It is looked up again 5 s
   * later. @defaultValue 2000
   */
  readonly lookupTimeoutMs?: number | undefined;
  /** The clock for all times of these options. For tests. @defaultValue the system's clock */
  readonly clock?: Clock | undefined;
}

type AppSettings = Filled<AppOptions<unknown>, 'services' | 'options' | 'discovery'>;

export const appTable: OptionTable<AppSettings> = optionTable('options', {
  // `ServiceHosts` checks this option.
  services: anyOption<ServiceRule>(),
  // What these options may contain depends on the client.
  options: anyOption<unknown>(),
  discovery: checkedOption<TargetOptions | undefined>(undefined, (_name, value) => {
    // `resolverFrom` reports what is wrong with the settings.
    resolverFrom('service.namespace:80', value as TargetOptions);
    return value as TargetOptions;
  }),
  idleTimeoutMs: numberOption(600_000, { min: 1, max: 86_400_000 }),
  maxServices: numberOption(500, { min: 1, max: 100_000, integer: true }),
  lookupTimeoutMs: numberOption(2_000, { min: 1, max: 600_000 }),
  clock: clockOption,
});

/** `AppOptions` after defaults were filled in and everything was checked. */
export interface ResolvedAppOptions<O> extends Omit<AppSettings, 'options'> {
  /** May throw what a function of the user throws, or an error about its result. */
  readonly optionsOf: (origin: URL) => O;
}

/** What the options of one Service may contain. */
export interface ServiceOptionsLike {
  readonly resolver?: Resolver | string | undefined;
  readonly clusterDomain?: string | undefined;
}

/** How the options of Services are checked. */
export interface ServiceOptionChecks<O> {
  readonly names: readonly string[];
  /** The names of options for Services over TLS, which are refused for others. */
  readonly tlsNames: readonly (keyof O)[];
  /** The names of the options for Services without TLS. */
  readonly plainNames: readonly (keyof O)[];
  /** Throws EVENKEEL_OPTION for invalid values of options for all Services. */
  check(options: O): void;
}

/** Fills in defaults and checks everything. Throws EVENKEEL_OPTION. */
export function resolveAppOptions<O extends ServiceOptionsLike>(
  options: AppOptions<O>,
  checks: ServiceOptionChecks<O>,
): ResolvedAppOptions<O> {
  const { options: _options, ...settings } = appTable.resolve(options);
  const { discovery } = settings;
  const optionsOf = optionsByOrigin(options.options, checks);
  return { ...settings, optionsOf: (origin) => found(optionsOf(origin), origin, discovery) };
}

function optionsByOrigin<O extends ServiceOptionsLike>(
  options: AppOptions<O>['options'],
  { names, tlsNames, plainNames, check }: ServiceOptionChecks<O>,
): (origin: URL) => O {
  if (typeof options === 'function') {
    return (origin) => {
      const own: unknown = (options as (origin: URL) => O | undefined)(new URL(origin)) ?? {};
      // A promise has no keys of its own, and would be taken for the defaults.
      if (own instanceof Promise) throw optionError('options()', 'options, not a promise of them', own);
      checkKeys('options()', own, names);
      return own as O;
    };
  }
  if (options === undefined) return () => ({}) as O;
  checkKeys('options', options, names);
  if (options.resolver !== undefined) {
    throw optionError('options.resolver', 'left out: it would send every Service to the same pods', 'a resolver');
  }
  check(options);
  const plain = { ...options };
  for (const name of tlsNames) delete plain[name];
  const secure = { ...options };
  for (const name of plainNames) delete secure[name];
  return ({ protocol }) => (protocol === 'https:' ? secure : plain);
}

/** The options of one Service, with what `discovery` says about finding it. */
function found<O extends ServiceOptionsLike>(options: O, origin: URL, discovery: TargetOptions | undefined): O {
  if (discovery === undefined) return options;
  const { resolver = resolverOf(origin) } = options;
  const clusterDomain = options.clusterDomain ?? discovery.dns?.clusterDomain;
  return {
    ...options,
    resolver: typeof resolver === 'string' ? resolverFrom(resolver, discovery) : resolver,
    ...(clusterDomain !== undefined && { clusterDomain }),
  };
}

/** The options of one Service with TLS settings of the app's own, which come before those that are there. */
export function withTls<O extends { readonly tls?: TlsOption | undefined }>(
  options: O,
  own: ConnectionOptions | undefined,
): O {
  if (own === undefined) return options;
  const { tls } = options;
  if (typeof tls !== 'function') return { ...options, tls: { ...tls, ...own } };
  return { ...options, tls: async (endpoint) => ({ ...(await tls(endpoint)), ...own }) };
}
