import { type Clock, type Rng, systemClock, systemRng, type Transport } from '../../index.js';
import { checkNumber, optionError, poolDefaults } from '../kit/index.js';
import { checkTls, type DialErrors, type TlsOption } from './dial.js';
import { serviceOrigin } from './origin.js';
import type { PodConnectionParts } from './pod-connection.js';

/** Options both HTTP transports share; each documents them with its own. */
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

/** Longest time of an option, in ms: a day. */
export const MAX_TIME_MS = 86_400_000;
/** How often a `tls` function is called while a connection is open, by default, in ms. */
const CREDENTIALS_REFRESH_MS = 60_000;
/** Largest number of sockets or streams. */
export const MAX_COUNT = 100_000;

/** What metrics with the names of OpenTelemetry's conventions say of all its requests. */
export function protocolOf({ protocol, hostname, port }: URL): Transport<unknown>['protocol'] {
  const scheme = protocol.slice(0, -1);
  return Object.freeze({
    conventions: 'http',
    attributes: Object.freeze({
      'server.address': hostname,
      'server.port': Number(port) || (scheme === 'https' ? 443 : 80),
      'url.scheme': scheme,
    }),
  });
}

/** Fills in defaults and checks everything but the names. Throws EVENKEEL_OPTION. */
export function resolveHttpTransport(
  options: HttpTransportOptions,
  { allowH2, errors }: { readonly allowH2: boolean; readonly errors: DialErrors },
): Omit<PodConnectionParts, 'endpoint'> {
  const origin = serviceOrigin('origin', options.origin);
  const { connections, tcpKeepAliveMs, connectTimeoutMs, tls = {}, healthPath } = options;
  const { clock = systemClock, rng = systemRng } = options;
  checkTls(origin, options.tls);
  if (healthPath !== undefined && (typeof healthPath !== 'string' || !healthPath.startsWith('/'))) {
    throw optionError('healthPath', 'a path that begins with /', healthPath);
  }
  if (allowH2 && origin.protocol === 'http:') {
    throw optionError('allowH2', 'false for http: targets, where useH2c is for HTTP/2', allowH2);
  }
  return {
    dial: {
      origin,
      connectTimeoutMs: checkNumber('connectTimeoutMs', connectTimeoutMs, poolDefaults.connectTimeoutMs, {
        min: 1,
        max: 600_000,
      }),
      tcpKeepAliveMs: checkNumber('tcpKeepAliveMs', tcpKeepAliveMs, 15_000, {
        min: 1_000,
        max: MAX_TIME_MS,
        integer: true,
      }),
      allowH2,
      // Sockets are opened with it long after this.
      tls: typeof tls === 'function' ? tls : { ...tls },
      clock,
      errors,
    },
    credentialsRefreshMs: checkNumber('credentialsRefreshMs', options.credentialsRefreshMs, CREDENTIALS_REFRESH_MS, {
      min: 1_000,
      max: MAX_TIME_MS,
      integer: true,
      infinite: true,
    }),
    connections: checkNumber('connections', connections, Number.POSITIVE_INFINITY, {
      min: 1,
      max: MAX_COUNT,
      integer: true,
      infinite: true,
    }),
    healthPath,
    clock,
    rng,
  };
}
