import { optionError } from '../../index.js';

/** What the transport decides for every dial; a `tls` option must not. */
const DIALLED: readonly string[] = ['host', 'port', 'path', 'socket', 'ALPNProtocols', 'session', 'lookup'];

/** Checks a `tls` option. Throws EVENKEEL_OPTION. */
export function checkTls(origin: URL, tls: unknown): void {
  if (tls === undefined) return;
  if (typeof tls !== 'object' || tls === null) throw optionError('tls', 'an object as for tls.connect', tls);
  if (origin.protocol === 'http:') throw optionError('tls', 'left out for http: targets', tls);
  for (const name of DIALLED) {
    if (name in tls) throw optionError(`tls.${name}`, 'left out, the transport sets it', (tls as never)[name]);
  }
}
