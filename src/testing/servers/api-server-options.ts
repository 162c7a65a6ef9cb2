import { checkBoolean, checkKeys, checkNumber, optionError } from '../../runtime/check.js';
import { type Clock, systemClock } from '../../runtime/clock.js';
import { type Rng, systemRng } from '../../runtime/rng.js';
import type { Tokens } from './api-server-access.js';
import { type Certificate, createCertificate } from './api-server-certificate.js';

/** Options of `createApiServer`. */
export interface ApiServerOptions {
  /** `true` creates a certificate for 127.0.0.1 and localhost; `ca` is then its authority. @defaultValue false */
  readonly tls?: boolean | Certificate;
  /** Loopback address to listen on; `::1` where there is no IPv4. @defaultValue '127.0.0.1' */
  readonly host?: '127.0.0.1' | '::1';
  /** Port to listen on, 0 for any. @defaultValue 0 */
  readonly port?: number;
  /** Bearer tokens and what they may do. Without it, no token is needed. */
  readonly tokens?: Tokens;
  /** How many writes the server remembers; a watch from before them gets 410. @defaultValue 1,000 */
  readonly historyLimit?: number;
  /** How often a watch that allows bookmarks gets one, in ms. @defaultValue 60,000 */
  readonly bookmarkIntervalMs?: number;
  /** Whether `limit` also applies to `resourceVersion=0`; upstream serves such lists whole, from its cache. @defaultValue false */
  readonly pagesFromCache?: boolean;
  /**
   * Whether a watch may begin with the current state (`sendInitialEvents`), as in 1.32 and from 1.34 on. If not, such a request is refused
   * with 422, as by other versions. @defaultValue true
   */
  readonly streamingLists?: boolean;
  /** Controls bookmarks, time-outs and delays. @defaultValue the real clock */
  readonly clock?: Clock;
  /** Controls where chunks are cut and how slices are named. @defaultValue random */
  readonly rng?: Rng;
}

/** The options of an API server after defaults were filled in and everything was checked. */
export interface ResolvedApiServerOptions {
  /** The certificate the server presents; undefined = plain HTTP. */
  readonly certificate: Certificate | undefined;
  /** The certificate authority that clients have to trust, PEM; undefined without TLS. */
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

/** Fills in defaults and checks everything. Throws EVENKEEL_OPTION. */
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

/** A given certificate is its own authority. */
function identity(tls: ApiServerOptions['tls']): Pick<ResolvedApiServerOptions, 'certificate' | 'ca'> {
  if (tls === true) {
    const authority = createCertificate({ commonName: 'evenkeel test authority', hosts: [] });
    return { certificate: createCertificate({ issuer: authority }), ca: authority.cert };
  }
  return tls ? { certificate: tls, ca: tls.cert } : { certificate: undefined, ca: undefined };
}
