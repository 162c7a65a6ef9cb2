import type { ConnectionOptions } from 'node:tls';
import { type Asked, optionError } from '../kit/index.js';

/** The `tls` option: settings, or a function called for each new connection. */
export type TlsOption = Asked<ConnectionOptions>;

/** Settings that the transport decides, and a `tls` option must not contain. */
const DIALLED: readonly string[] = ['host', 'port', 'path', 'socket', 'ALPNProtocols', 'session', 'lookup'];

/** Checks a `tls` option. Throws EVENKEEL_OPTION. */
export function checkTls(origin: URL, tls: unknown): void {
  if (tls === undefined) return;
  const fits = typeof tls === 'function' || (typeof tls === 'object' && tls !== null);
  if (!fits) throw optionError('tls', 'an object as for tls.connect, or a function that returns one', tls);
  if (origin.protocol === 'http:') throw optionError('tls', 'left out for http: targets', tls);
  if (typeof tls !== 'function') checkSettings(tls as object);
}

/** Checks the result of a `tls` function. Throws EVENKEEL_OPTION without the value, which may be a key. */
export function checkAskedTls(tls: ConnectionOptions): ConnectionOptions {
  if (typeof tls !== 'object' || tls === null) throw new TypeError('it returned no object as for tls.connect');
  checkSettings(tls);
  return tls;
}

function checkSettings(tls: object): void {
  for (const name of DIALLED) {
    if (name in tls) throw optionError(`tls.${name}`, 'left out, the transport sets it', (tls as never)[name]);
  }
}
