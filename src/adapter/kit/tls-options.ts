import type { ConnectionOptions } from 'node:tls';
import { optionError } from '../../runtime/check.js';
import { ownProperties } from '../../runtime/own-properties.js';

/** Options of `tls.connect` that would open the connection elsewhere than at the endpoint. */
const redirecting: readonly string[] = ['host', 'port', 'path', 'socket', 'lookup'];

/**
 * Checks options for `tls.connect`, and returns a copy of them without a prototype: sockets are opened with it long after the caller passed
 * it. Throws EVENKEEL_OPTION for what is no object, and for options that would connect elsewhere than to the endpoint. The error contains no
 * value, which may be a key.
 *
 * @param alsoSet Further options that the transport sets itself.
 */
export function checkTlsOptions(name: string, options: unknown, alsoSet: readonly string[] = []): ConnectionOptions {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw optionError(name, 'an object as for tls.connect', options);
  }
  const own = ownProperties(options);
  for (const option of [...redirecting, ...alsoSet]) {
    if (option in own) throw optionError(`${name}.${option}`, 'left out, the transport sets it', own[option as never]);
  }
  return own;
}

/** What HTTP adds: the protocols that it offers, and sessions, which belong to one endpoint. */
export const setByHttp: readonly string[] = ['ALPNProtocols', 'session'];
