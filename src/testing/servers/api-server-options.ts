import { checkBoolean, checkKeys, checkNumber, optionError } from '../../runtime/check.js';
import { type Clock, systemClock } from '../../runtime/clock.js';
import { type Rng, systemRng } from '../../runtime/rng.js';
import type { Tokens } from './api-server-access.js';
import { type Certificate, createCertificate } from './api-server-certificate.js';

/** Options of `createApiServer`. */
export interface ApiServerOptions {
  /** The server's certificate; `true` creates one for 127.0.0.1 and localhost, and `ca` is then its authority. @defaultValue false */
  readonly tls?: boolean | Certificate;
  /** The loopback address to listen on; `::1` where there is no IPv4. @defaultValue '127.0.0.1' */
  readonly host?: '127.0.0.1' | '::1';
  /** The port to listen on; 0 for any free port. @defaultValue 0 */
  readonly port?: number;
  /** The bearer tokens that clients may send, and what each may do. @defaultValue no token is needed */
  readonly tokens?: Tokens;
  /** How many writes the server remembers; a watch from before the oldest of them gets 410. @defaultValue 1,000 */
  readonly historyLimit?: number;
  /** How often a watch that allows bookmarks gets one, in ms. @defaultValue 60,000 */
  readonly bookmarkIntervalMs?: number;
  /**
   * Whether `limit` also applies to lists with `resourceVersion=0`; a real API server sends such lists whole, from its cache. @defaultValue
   * false
   */
  readonly pagesFromCache?: boolean;
  /**
   * Whether a watch may begin with the current state (`sendInitialEvents`), as in Kubernetes 1.32 and from 1.34 on. Otherwise such a
   * request is refused with 422, as by other versions. @defaultValue true
   */
  readonly streamingLists?: boolean;
  /** The clock that controls bookmarks, timeouts and delays. @defaultValue the real clock */
  readonly clock?: Clock;
  /** The random numbers that decide where chunks are cut and how slices are named. @defaultValue random */
  readonly rng?: Rng;
}

/** The options of an API server after defaults were filled in and everything was checked. */
export interface ResolvedApiServerOptions {
  /** The certificate that the server presents; undefined = plain HTTP. */
  readonly certificate: Certificate | undefined;
  /** The certificate authority that clients have to trust, as PEM; undefined without TLS. */
  readonly ca: string | undefined;
  readonly host: string;
  readonly port: number;
  readonly tokens: Tokens | undefined;
  readonly historyLimit: number;
  readonly bookmarkIntervalMs: number;
  readonly pagesFromCache: boolean;
  readonly streamingLists: boolean;
  readonly clock: Clock;
  readonly rng: Rng;
}

/** Fills in defaults and checks every option. Throws EVENKEEL_OPTION. */
export function resolveApiServerOptions(options: ApiServerOptions): ResolvedApiServerOptions {
  checkKeys('createApiServer options', options, [
    'tls',
    'host',
    'port',
    'tokens',
    'historyLimit',
    'bookmarkIntervalMs',
    'pagesFromCache',
    'streamingLists',
    'clock',
    'rng',
  ]);
  const { port, historyLimit, bookmarkIntervalMs, pagesFromCache } = options;
  return {
    ...identity(options.tls),
    host: checkHost(options.host),
    port: checkNumber('port', port, 0, { min: 0, max: 65_535, integer: true }),
    tokens: options.tokens,
    historyLimit: checkNumber('historyLimit', historyLimit, 1_000, { min: 0, integer: true }),
    bookmarkIntervalMs: checkNumber('bookmarkIntervalMs', bookmarkIntervalMs, 60_000, { min: 1 }),
    pagesFromCache: checkBoolean('pagesFromCache', pagesFromCache, false),
    streamingLists: checkBoolean('streamingLists', options.streamingLists, true),
    clock: options.clock ?? systemClock,
    rng: options.rng ?? systemRng,
  };
}

function checkHost(host: ApiServerOptions['host'] = '127.0.0.1'): string {
  if (host !== '127.0.0.1' && host !== '::1') throw optionError('host', "'127.0.0.1' or '::1'", host);
  return host;
}

/** Returns the server's certificate and its authority. A certificate that a test passes is its own authority. */
function identity(tls: ApiServerOptions['tls']): Pick<ResolvedApiServerOptions, 'certificate' | 'ca'> {
  if (tls === true) {
    const authority = createCertificate({ commonName: 'evenkeel test authority', hosts: [] });
    return { certificate: createCertificate({ issuer: authority }), ca: authority.cert };
  }
  return tls ? { certificate: tls, ca: tls.cert } : { certificate: undefined, ca: undefined };
}
