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
  ownProperties,
  type ServiceRule,
} from '../kit/index.js';
import type { TlsOption } from './dial.js';
import { resolverOf } from './origin.js';

/** Options of a dispatcher or of agents that serve a whole app. */
export interface AppOptions<O> {
  /**
   * Which hosts are Services: a list of their names, in any spelling, and no others; or a function that returns true, false, or undefined
   * for "DNS decides".
   * @defaultValue DNS decides: a host is a Service if `<host>.svc.<cluster domain>.` exists
   */
  readonly services?: ServiceRule | undefined;
  /**
   * How Services are balanced: the options of `createDispatcher`, or for node:http those of `createAgent`, without the fallback. One object
   * for all Services (then without `resolver`), or a function that is called once per origin, when the origin is first used; undefined
   * means the defaults. @defaultValue {}
   */
  readonly options?: O | ((origin: URL) => O | undefined);
  /**
   * How Services and their pods are found: `dns`, `kubernetes`, `allowAddresses` and so on. @defaultValue from this pod's environment
   * @see docs/reference/targets.md
   */
  readonly discovery?: TargetOptions | undefined;
  /**
   * How long a Service may be unused before its connections are closed, in ms; it may take up to twice as long. Its next request opens it
   * again. @defaultValue 600000
   */
  readonly idleTimeoutMs?: number | undefined;
  /**
   * How many Services (scheme, name and port) are balanced at once. A new Service replaces one that had no request for 10 s; if there is
   * none, the new Service is not balanced. @defaultValue 500
   */
  readonly maxServices?: number | undefined;
  /**
   * How long DNS may take to say whether a host is a Service, in ms. After that the host is not balanced, and is looked up again 5 s later.
   * @defaultValue 2000
   */
  readonly lookupTimeoutMs?: number | undefined;
  /** The clock for all times of these options, for tests. @defaultValue the system's clock */
  readonly clock?: Clock | undefined;
}

type AppSettings = Filled<AppOptions<unknown>, 'services' | 'options' | 'discovery'>;

export const appTable: OptionTable<AppSettings> = optionTable('options', {
  // `ServiceHosts` checks this option.
  services: anyOption<ServiceRule>(),
  // What these options may contain depends on the HTTP client, which checks them.
  options: anyOption<unknown>(),
  discovery: checkedOption<TargetOptions | undefined>(undefined, (_name, value) => {
    // `resolverFrom` is called for its error, which says what is wrong with the settings.
    resolverFrom('service.namespace:80', value as TargetOptions);
    return value as TargetOptions;
  }),
  idleTimeoutMs: numberOption(600_000, { min: 1, max: 86_400_000 }),
  maxServices: numberOption(500, { min: 1, max: 100_000, integer: true }),
  lookupTimeoutMs: numberOption(2_000, { min: 1, max: 600_000 }),
  clock: clockOption,
});

/** The options for a whole app, after defaults were filled in and everything was checked. */
export interface ResolvedAppOptions<O> extends Omit<AppSettings, 'options'> {
  /** Returns the options of one Service. May throw what a function of the application throws, or an error about its result. */
  readonly optionsOf: (origin: URL) => O;
  /**
   * Called with what `optionsOf` threw, or with the error about an option that it returned. The request then goes where requests for other
   * hosts go. Without it, the request fails with that error.
   */
  readonly optionsFailed?: ((error: Error) => void) | undefined;
}

/** The options of one Service that are the same for all HTTP clients. */
export interface ServiceOptionsLike {
  readonly resolver?: Resolver | string | undefined;
  readonly clusterDomain?: string | undefined;
}

/** How the options of Services are checked for one HTTP client. */
export interface ServiceOptionChecks<O> {
  readonly names: readonly string[];
  /** The names of the options that are only for Services over TLS, and are left out for others. */
  readonly tlsNames: readonly (keyof O)[];
  /** The names of the options that are only for Services without TLS, and are left out for others. */
  readonly plainNames: readonly (keyof O)[];
  /** Checks options that are for all Services. Throws EVENKEEL_OPTION for invalid values. */
  check(options: O): void;
}

/** Fills in defaults and checks every option. Throws EVENKEEL_OPTION. */
export function resolveAppOptions<O extends ServiceOptionsLike>(
  options: AppOptions<O>,
  checks: ServiceOptionChecks<O>,
): ResolvedAppOptions<O> {
  const { options: serviceOptions, ...settings } = appTable.resolve(options);
  const { discovery } = settings;
  const optionsOf = optionsByOrigin(serviceOptions as AppOptions<O>['options'], checks);
  return { ...settings, optionsOf: (origin) => withDiscovery(optionsOf(origin), origin, discovery) };
}

function optionsByOrigin<O extends ServiceOptionsLike>(
  options: AppOptions<O>['options'],
  { names, tlsNames, plainNames, check }: ServiceOptionChecks<O>,
): (origin: URL) => O {
  if (typeof options === 'function') {
    return (origin) => {
      const serviceOptions: unknown = (options as (origin: URL) => O | undefined)(new URL(origin)) ?? {};
      // A promise has no own keys, so it would be taken for empty options.
      if (serviceOptions instanceof Promise) {
        // Nobody waits for it, and a rejection without a listener would end the process.
        serviceOptions.catch(() => {});
        throw optionError('options()', 'options, not a promise of them', serviceOptions);
      }
      checkKeys('options()', serviceOptions, names);
      return ownProperties(serviceOptions) as O;
    };
  }
  if (options === undefined) return () => ownProperties({}) as O;
  checkKeys('options', options, names);
  const own = ownProperties(options);
  if (own.resolver !== undefined) {
    throw optionError('options.resolver', 'left out: it would send every Service to the same pods', own.resolver);
  }
  check(own);
  const plain = ownProperties(own);
  for (const name of tlsNames) delete plain[name];
  const secure = ownProperties(own);
  for (const name of plainNames) delete secure[name];
  return ({ protocol }) => (protocol === 'https:' ? secure : plain);
}

/** Adds what `discovery` says about finding a Service to the options of that Service. */
function withDiscovery<O extends ServiceOptionsLike>(options: O, origin: URL, discovery: TargetOptions | undefined): O {
  if (discovery === undefined) return options;
  const { resolver = resolverOf(origin) } = options;
  const { dns } = ownProperties(discovery);
  const clusterDomain = options.clusterDomain ?? ownProperties(dns)?.clusterDomain;
  return ownProperties({
    ...options,
    resolver: typeof resolver === 'string' ? resolverFrom(resolver, discovery) : resolver,
    ...(clusterDomain !== undefined && { clusterDomain }),
  });
}

/** Adds a request's own TLS settings to the options of its Service; they take precedence over the Service's. */
export function withTls<O extends { readonly tls?: TlsOption | undefined }>(
  options: O,
  own: ConnectionOptions | undefined,
): O {
  if (own === undefined) return options;
  const { tls } = ownProperties(options);
  if (typeof tls !== 'function') return { ...options, tls: { ...tls, ...own } };
  return { ...options, tls: async (endpoint) => ({ ...(await tls(endpoint)), ...own }) };
}
