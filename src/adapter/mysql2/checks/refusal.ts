import { isEvenkeelError } from '../../../index.js';

/**
 * Errors with which a server refuses our user. It keeps refusing until somebody changes the user, the password or the grants.
 */
const REFUSED_LOG_INS: ReadonlySet<unknown> = new Set([
  1044, // ER_DBACCESS_DENIED_ERROR
  1045, // ER_ACCESS_DENIED_ERROR
  1049, // ER_BAD_DB_ERROR
  1130, // ER_HOST_NOT_PRIVILEGED
  1251, // ER_NOT_SUPPORTED_AUTH_MODE
  1698, // ER_ACCESS_DENIED_NO_PASSWORD_ERROR
  3118, // ER_ACCOUNT_HAS_BEEN_LOCKED (MySQL)
  4151, // ER_ACCOUNT_HAS_BEEN_LOCKED (MariaDB)
]);

/** Refusals that say nothing against the connections that are open: there are too many, or a password has just changed. */
const NO_MORE: ReadonlySet<unknown> = new Set([
  1040, // ER_CON_COUNT_ERROR
  1044, // ER_DBACCESS_DENIED_ERROR
  1045, // ER_ACCESS_DENIED_ERROR
  1049, // ER_BAD_DB_ERROR
  1129, // ER_HOST_IS_BLOCKED
  1203, // ER_TOO_MANY_USER_CONNECTIONS
  1226, // ER_USER_LIMIT_REACHED
  // Our own machine has no more to give.
  'EMFILE',
  'ENFILE',
  'ENOBUFS',
  'ENOMEM',
  'EADDRNOTAVAIL',
  // The server, or a proxy in front of it, hung up instead of a greeting. If it died, its open connections show that at once.
  'ECONNRESET',
  'EPIPE',
  'PROTOCOL_CONNECTION_LOST',
]);

/** How OpenSSL and Node begin to say what is wrong with a certificate. The core knows these errors by the codes mysql2 replaces. */
const WRONG_CERTIFICATE =
  /^(Hostname\/IP does not match|self[- ]signed certificate|unable to (verify the first|get (local )?issuer) certificate|certificate (signature failure|not trusted|has expired|is not yet valid))/;

/**
 * Whether only a change of the set-up cures the failure of a log-in: the user is refused, TLS does not fit, or a function of the
 * application could not provide the credentials.
 */
export function isRefusedLogIn(error: unknown): boolean {
  if (isEvenkeelError(error, 'EVENKEEL_OPTION')) return true;
  const { code, errno, message } = (error ?? {}) as { readonly [name in 'code' | 'errno' | 'message']?: unknown };
  if (code === 'HANDSHAKE_NO_SSL_SUPPORT') return true;
  // mysql2 gives this code to every error of TLS, also to a connection that was lost meanwhile.
  if (code === 'HANDSHAKE_SSL_ERROR') return WRONG_CERTIFICATE.test(String(message));
  return REFUSED_LOG_INS.has(errno);
}

/**
 * What it means for a server with open connections that it refused another one: it is `full`, it is `leaving` (its listener is
 * closed), it is `silent` (it accepts, but does not greet), or nothing is known.
 */
export function meaningOf(error: Error | undefined): 'full' | 'leaving' | 'silent' | 'unknown' {
  // A function did not provide the credentials: no connection can be opened now, through no fault of the server.
  if (isEvenkeelError(error, 'EVENKEEL_OPTION')) return 'full';
  const { code, errno } = (error ?? {}) as { readonly code?: unknown; readonly errno?: unknown };
  if (NO_MORE.has(errno) || NO_MORE.has(code)) return 'full';
  if (code === 'ECONNREFUSED') return 'leaving';
  return code === 'ETIMEDOUT' ? 'silent' : 'unknown';
}
