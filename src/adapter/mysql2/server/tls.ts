import { isIP } from 'node:net';
import * as mysql2 from 'mysql2';
import { EvenkeelError } from '../../../index.js';
import { checkBoolean } from '../../kit/index.js';

/**
 * TLS settings for mysql2, or undefined for plain TCP. mysql2 only checks the certificate's name if it is told to, and needs the
 * name for that. Throws EVENKEEL_OPTION.
 */
export function resolveTls(ssl: unknown, host: string | undefined): object | undefined {
  if (ssl === undefined || ssl === false) return undefined;
  if (typeof ssl !== 'string' && (typeof ssl !== 'object' || ssl === null)) {
    throw new EvenkeelError('EVENKEEL_OPTION', 'ssl must be an object of TLS settings, or the name of a profile');
  }
  const given = typeof ssl === 'string' ? profile(ssl) : (ssl as Record<string, unknown>);
  const { verifyIdentity = true, rejectUnauthorized = true } = given;
  checkBoolean('ssl.verifyIdentity', verifyIdentity, true);
  checkBoolean('ssl.rejectUnauthorized', rejectUnauthorized, true);
  if (verifyIdentity && (host === undefined || isIP(host) !== 0)) {
    throw new EvenkeelError(
      'EVENKEEL_OPTION',
      'ssl needs `host`, the name in the certificates of the servers' +
        (host === undefined ? '' : `; ${host} is an address`),
    );
  }
  return { ...given, verifyIdentity, rejectUnauthorized };
}

function profile(name: string): Record<string, unknown> {
  const { ConnectionConfig } = mysql2 as unknown as {
    readonly ConnectionConfig: { getSSLProfile(name: string): Record<string, unknown> };
  };
  try {
    return ConnectionConfig.getSSLProfile(name);
  } catch {
    // The string is not shown: it may be a key.
    throw new EvenkeelError(
      'EVENKEEL_OPTION',
      'ssl must be TLS settings, or the name of a profile: mysql2 knows no such one',
    );
  }
}
