/** The credentials of connections (user, password and TLS settings), and how mysql2 gets them. */
import { isIP } from 'node:net';
import type { PoolOptions } from 'mysql2';
import { type Endpoint, EvenkeelError, isEvenkeelError } from '../../index.js';
import { checkBoolean, isSameIdentity, ownProperties, perEndpointError, valueFor } from '../kit/index.js';
import { tlsProfile } from './internals.js';

/** The part of a connection's credentials that functions of the application provide. */
export interface Credentials {
  readonly user?: string;
  readonly password?: string;
  readonly ssl?: object | undefined;
}

/** Provides the credentials of a connection. Rejects with EVENKEEL_OPTION and the option's name; no value is in the message. */
export type ReadCredentials = (endpoint: Endpoint) => Promise<Credentials>;

/**
 * Creates a function that reads credentials from the functions among the options; undefined if there are none.
 *
 * @param host The name that the servers' certificates must have.
 */
export function readerOfCredentials(
  functions: Readonly<Partial<Record<keyof Credentials, (endpoint: Endpoint) => unknown>>>,
  host: string | undefined,
): ReadCredentials | undefined {
  const named = Object.entries(functions) as [keyof Credentials, (endpoint: Endpoint) => unknown][];
  if (named.length === 0) return undefined;
  return async (endpoint) => {
    const entries = named.map(async ([name, wanted]) => [
      name,
      await valueFor(name, wanted, endpoint, (value) => checked(name, value, host)),
    ]);
    const answers = await Promise.all(entries).catch((error) => {
      throw ofServer(error);
    });
    return Object.fromEntries(answers) as Credentials;
  };
}

function checked(name: keyof Credentials, value: unknown, host: string | undefined): unknown {
  if (name === 'ssl') return resolveTls(value, host);
  if (typeof value === 'string') return value;
  throw new TypeError(`it must return a string, got ${value === null ? 'null' : typeof value}`);
}

/** Whether two sets of credentials are the same, so that a connection opened with one need not be replaced. */
export function areSameCredentials(one: Credentials, other: Credentials): boolean {
  return isSameIdentity(identityOf(one), identityOf(other));
}

function identityOf({ user, password, ssl }: Credentials): object {
  return { ...ssl, user, password };
}

/** Creates the error for functions of the application that did not provide credentials in time. */
export function credentialsTooLate(endpoint: Endpoint, limitMs: number): EvenkeelError {
  return ofServer(
    perEndpointError('user", "password" or "ssl', endpoint, `took more than ${limitMs} ms`),
  ) as EvenkeelError;
}

/**
 * Converts an error to one that the core counts as an error of the server: while no connection is open, callers are notified at once, as
 * when the password is refused. An HTTP request would wait until the function returns.
 */
function ofServer(error: unknown): unknown {
  if (!isEvenkeelError(error)) return error;
  const { code, message, cause, endpoint } = error;
  return new EvenkeelError(code, message, { cause, ...(endpoint !== undefined && { endpoint }) });
}

/** The options for one log-in with these credentials. */
export function withCredentials(options: Record<string, unknown>, { user, password, ssl }: Credentials): PoolOptions {
  return {
    ...options,
    ...(user !== undefined && { user }),
    ...(password !== undefined && { password }),
    ...(ssl !== undefined && { ssl: { ...ssl } }),
  } as PoolOptions;
}

/**
 * TLS settings for mysql2, or undefined for plain TCP. mysql2 checks the name in a certificate only if an option asks for that, and needs
 * the name. Throws EVENKEEL_OPTION.
 */
export function resolveTls(ssl: unknown, host: string | undefined): object | undefined {
  if (ssl === undefined || ssl === false) return undefined;
  if (typeof ssl !== 'string' && (typeof ssl !== 'object' || ssl === null)) {
    throw new EvenkeelError('EVENKEEL_OPTION', 'ssl must be an object of TLS settings, or the name of a profile');
  }
  const settings: Record<string, unknown> = ownProperties(typeof ssl === 'string' ? profile(ssl) : { ...ssl });
  const { verifyIdentity = true, rejectUnauthorized = true } = settings;
  checkBoolean('ssl.verifyIdentity', verifyIdentity, true);
  checkBoolean('ssl.rejectUnauthorized', rejectUnauthorized, true);
  if (verifyIdentity && (host === undefined || isIP(host) !== 0)) {
    throw new EvenkeelError(
      'EVENKEEL_OPTION',
      'ssl needs `host`, the name in the certificates of the servers' +
        (host === undefined ? '' : `; ${host} is an address`),
    );
  }
  return { ...settings, verifyIdentity, rejectUnauthorized };
}

function profile(name: string): Record<string, unknown> {
  try {
    return tlsProfile(name);
  } catch {
    // The value is not shown in the message, because it may be a key.
    throw new EvenkeelError(
      'EVENKEEL_OPTION',
      'ssl must be TLS settings, or the name of a profile: mysql2 knows no such one',
    );
  }
}
