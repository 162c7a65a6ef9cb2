import type { Clock, Rng } from '../../index.js';
import {
  anyOption,
  checkedOption,
  clockOption,
  type Filled,
  numberOption,
  type OptionTable,
  optionError,
  optionTable,
  ownProperties,
  poolTable,
  requiredOption,
  rngOption,
} from '../kit/index.js';
import { checkTls, type DialErrors, type TlsOption } from './dial.js';
import { serviceOrigin } from './origin.js';
import type { PodParts } from './pod.js';

/** The options that both HTTP transports share; each transport documents them among its own. */
export interface HttpTransportOptions {
  readonly origin: string | URL;
  readonly connections?: number | undefined;
  readonly tls?: TlsOption | undefined;
  readonly credentialsRefreshMs?: number | undefined;
  readonly tcpKeepAliveMs?: number | undefined;
  readonly connectTimeoutMs?: number | undefined;
  readonly healthPath?: string | undefined;
  readonly clock?: Clock | undefined;
  readonly rng?: Rng | undefined;
}

/** The longest time that an option of an HTTP transport may set, in ms: a day. */
export const MAX_TIME_MS = 86_400_000;
/** The largest number of sockets or streams that an option of an HTTP transport may set. */
export const MAX_COUNT = 100_000;

type HttpTransportSettings = Filled<Omit<HttpTransportOptions, 'origin'>, 'tls' | 'healthPath'> & {
  readonly origin: URL;
};

const count = { min: 1, max: MAX_COUNT, integer: true };
const ms = { min: 1_000, max: MAX_TIME_MS, integer: true };

export const httpTransportTable: OptionTable<HttpTransportSettings> = optionTable('options', {
  origin: requiredOption(serviceOrigin),
  connections: numberOption(Number.POSITIVE_INFINITY, { ...count, infinite: true }),
  // TLS settings are checked later, because they are only allowed for some origins.
  tls: anyOption<TlsOption>(),
  credentialsRefreshMs: numberOption(60_000, { ...ms, infinite: true }),
  tcpKeepAliveMs: numberOption(15_000, ms),
  connectTimeoutMs: poolTable.options.connectTimeoutMs,
  healthPath: checkedOption<string | undefined>(undefined, (name, value) => {
    if (typeof value === 'string' && value.startsWith('/')) return value;
    throw optionError(name, 'a path that begins with /', value);
  }),
  clock: clockOption,
  rng: rngOption,
});

/** Fills in the defaults of an HTTP transport's options and checks everything but the options' names. Throws EVENKEEL_OPTION. */
export function resolveHttpTransport(
  options: HttpTransportOptions,
  { allowH2, errors }: { readonly allowH2: boolean; readonly errors: DialErrors },
): Omit<PodParts, 'endpoint'> {
  const settings = httpTransportTable.resolveOwn(options);
  const { origin, tls, connectTimeoutMs, tcpKeepAliveMs, clock, ...own } = settings;
  checkTls(origin, tls);
  if (allowH2 && origin.protocol === 'http:') {
    throw optionError('allowH2', 'false for http: targets, where useH2c is for HTTP/2', allowH2);
  }
  return {
    ...own,
    // The settings are copied, because sockets are opened with them long after the caller passed them.
    dial: {
      origin,
      connectTimeoutMs,
      tcpKeepAliveMs,
      allowH2,
      tls: typeof tls === 'function' ? tls : ownProperties(tls ?? {}),
      clock,
      errors,
    },
    clock,
  };
}
