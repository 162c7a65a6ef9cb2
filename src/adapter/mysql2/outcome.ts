/** What the errors of mysql2 and its servers mean: for a statement, for a log-in, for a connection. */
import { isEvenkeelError, type Outcome, outcomes } from '../../index.js';
import { outcomeOfSystemError } from '../kit/index.js';
import type { ConnectRefusal } from '../sql/session-pool.js';
import { isClosedBefore, isMissingFile } from './internals.js';
import { isApplicationError, wasReadToItsEnd } from './own-functions.js';

/**
 * The outcome of a statement that a server refused because it takes no writes. A success of the server, distinguished from other successes
 * by identity.
 */
export const readOnlyOutcome: Outcome = Object.freeze({ kind: 'success' });

/** What the error of a statement that was sent means for the statement, its server and its connection. */
export interface MysqlVerdict {
  readonly outcome: Outcome;
  /**
   * Whether the statement provably had no effect, so that it may be sent to another server even if it is not idempotent. If the server
   * answered, this only holds for a statement that was sent alone and runs no others.
   */
  readonly unsent: boolean;
  /** Whether the connection can take another statement after the error. */
  readonly usable: boolean;
  /**
   * Whether the connection is closed once its user releases it: a new connection may lead to another server, one that takes writes. That is
   * how databases behind one address fail over (Aurora, a ClusterIP, a proxy). mysql2's pool does the same.
   */
  readonly discard: boolean;
}

const verdict = (outcome: Outcome, unsent: boolean, usable: boolean, discard = false): MysqlVerdict =>
  Object.freeze({ outcome, unsent, usable, discard });

const answered = verdict(outcomes.success, false, true);
const readOnly = verdict(readOnlyOutcome, true, true, true);
/** An option of the server, or the transaction, forbids the statement. */
const forbidden = verdict(outcomes.success, false, true, true);
const lost = verdict(outcomes.reset, false, false);
const timedOut = verdict(outcomes.timeout, false, false);
const refused = verdict(outcomes.notStarted, true, false);
/** A limit of the server is used up, by whichever client: it refused the statement before it ran it. */
const unserved = verdict(outcomes.status, true, true);
const broken = verdict(outcomes.protocol, false, false);
/** The server answered, but mysql2 stopped reading, so that the rest of the answer is still on the connection. */
const unread = verdict(outcomes.success, false, false);

/** What errors about the server or the connection mean, by error number. Errors with other numbers are about the statement. */
const byNumber: Readonly<Record<number, MysqlVerdict>> = {
  1021: verdict(outcomes.status, false, true), // ER_DISK_FULL
  1037: verdict(outcomes.status, false, true), // ER_OUTOFMEMORY
  1038: verdict(outcomes.status, false, true), // ER_OUT_OF_SORTMEMORY
  1041: verdict(outcomes.status, false, true), // ER_OUT_OF_RESOURCES
  1053: lost, // ER_SERVER_SHUTDOWN: the statement may have been half executed
  1152: lost, // ER_ABORTING_CONNECTION
  1158: lost, // ER_NET_READ_ERROR
  1159: lost, // ER_NET_READ_INTERRUPTED
  1160: lost, // ER_NET_ERROR_ON_WRITE
  1161: lost, // ER_NET_WRITE_INTERRUPTED
  1184: lost, // ER_NEW_ABORTING_CONNECTION
  1226: unserved, // ER_USER_LIMIT_REACHED: max_queries_per_hour, say
  1461: unserved, // ER_MAX_PREPARED_STMT_COUNT_REACHED
  1792: forbidden, // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
  1836: readOnly, // ER_READ_ONLY_MODE
  1927: lost, // ER_CONNECTION_KILLED (MariaDB)
  3169: lost, // ER_SESSION_WAS_KILLED (MySQL)
  4031: refused, // ER_CLIENT_INTERACTION_TIMEOUT: the server had hung up before the statement arrived
};

/** The error number ER_OPTION_PREVENTS_STATEMENT; `read_only` is one of the options that can cause it. */
const OPTION_PREVENTS = 1290;
/**
 * The error number ER_UNKNOWN_COM_ERROR, with which a Galera node that is not in sync answers each statement before it runs it, also the
 * statements of a procedure.
 */
const UNKNOWN_COMMAND = 1047;

/** What errors of mysql2 itself mean, by their codes. */
const byCode: ReadonlyMap<string, MysqlVerdict> = new Map([
  ['PROTOCOL_SEQUENCE_TIMEOUT', timedOut],
  ['PROTOCOL_CONNECTION_LOST', lost],
]);

/**
 * What the error of a statement means. An error that the server answered with (a duplicate key, a deadlock, a syntax error) is the
 * application's: the server did its work.
 */
export function verdictOf(error: unknown): MysqlVerdict {
  if (typeof error !== 'object' || error === null) return broken;
  if (isApplicationError(error)) return wasReadToItsEnd(error) ? answered : unread;
  const { code, errno, message, sqlState } = error as {
    readonly code?: unknown;
    readonly errno?: unknown;
    readonly message?: unknown;
    readonly sqlState?: unknown;
  };
  // System errors have a number too, but a negative one, and no SQL state.
  if (typeof errno === 'number' && errno > 0 && typeof sqlState === 'string') {
    if (errno === OPTION_PREVENTS) return /read.only/i.test(String(message)) ? readOnly : forbidden;
    if (errno === UNKNOWN_COMMAND && /wsrep/i.test(String(message))) return unserved;
    return byNumber[errno] ?? answered;
  }
  if (isEvenkeelError(error))
    return error.code === 'EVENKEEL_CLOSED' ? verdict(outcomes.cancelled, false, false) : lost;
  const byItsCode = typeof code === 'string' ? byCode.get(code) : undefined;
  if (byItsCode !== undefined) return byItsCode;
  if (outcomeOfSystemError(code) !== undefined) return lost;
  if (isMissingFile({ message })) return answered;
  return isClosedBefore({ message }) ? refused : broken;
}

/** The error numbers of a statement that a server knows, but ended before it was done. */
const INTERRUPTED: ReadonlySet<unknown> = new Set([
  1205, // ER_LOCK_WAIT_TIMEOUT
  1317, // ER_QUERY_INTERRUPTED: KILL QUERY
  1969, // ER_STATEMENT_TIMEOUT (MariaDB)
  3024, // ER_QUERY_TIMEOUT (MySQL)
]);

/** Whether a server ended a statement before it was done, so that the error says nothing about the statement. */
export function isInterrupted(error: unknown): boolean {
  return INTERRUPTED.has((error as { readonly errno?: unknown } | null)?.errno);
}

/**
 * The shortest idle time, in ms, after which a reset connection counts as closed in order. `wait_timeout` is at least a second, but
 * evenkeel may have noticed late that the connection was idle.
 */
const LEAST_WAIT_TIMEOUT_MS = 500;

/**
 * Whether a server closed an idle connection in an orderly way. MySQL sends an error first, or nothing. MariaDB resets a connection that
 * was idle for `wait_timeout`, as a server that dies does: if it did die, connecting again shows that.
 */
export function isFarewell(error: Error | undefined, idleMs: number): boolean {
  if (error === undefined) return true;
  const { code, fatal } = error as { readonly code?: unknown; readonly fatal?: unknown };
  if (code === 'ECONNRESET' || code === 'EPIPE') return idleMs >= LEAST_WAIT_TIMEOUT_MS;
  return fatal === true && (code === 'PROTOCOL_CONNECTION_LOST' || !/^E[A-Z]+$/.test(String(code)));
}

/** Creates mysql2's error for a connection that ended without an error of its own. */
export function connectionLost(address: string): Error {
  return Object.assign(new Error(`Connection lost: ${address} closed the connection`), {
    code: 'PROTOCOL_CONNECTION_LOST',
    fatal: true,
  });
}

/** Creates mysql2's error for a statement that took too long; it names the server if one was picked. */
export function queryTimeout(address: string | undefined, limitMs: number): Error {
  const what = address === undefined ? 'no server could take the statement' : `${address} did not answer`;
  return Object.assign(new Error(`Query inactivity timeout: ${what} within ${limitMs} ms`), {
    code: 'PROTOCOL_SEQUENCE_TIMEOUT',
    errorno: 'PROTOCOL_SEQUENCE_TIMEOUT',
    syscall: 'query',
  });
}

/** Whether an error says that a statement took longer than its timeout. */
export function isQueryTimeout(error: Error): boolean {
  return (error as { readonly code?: unknown }).code === 'PROTOCOL_SEQUENCE_TIMEOUT';
}

/**
 * Error numbers with which a server refuses the user. The server keeps refusing until somebody changes the user, the password or the
 * grants.
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

/** Errors of a refused connection that do not count against the open connections: there are too many, or a password has just changed. */
const NO_MORE: ReadonlySet<unknown> = new Set([
  1040, // ER_CON_COUNT_ERROR
  1044, // ER_DBACCESS_DENIED_ERROR
  1045, // ER_ACCESS_DENIED_ERROR
  1049, // ER_BAD_DB_ERROR
  1129, // ER_HOST_IS_BLOCKED
  1203, // ER_TOO_MANY_USER_CONNECTIONS
  1226, // ER_USER_LIMIT_REACHED
  // These codes say that our own machine has no more sockets or memory to give.
  'EMFILE',
  'ENFILE',
  'ENOBUFS',
  'ENOMEM',
  'EADDRNOTAVAIL',
  // With these codes the server, or a proxy in front of it, hung up instead of greeting. If the server died, its open connections show that
  // at once.
  'ECONNRESET',
  'EPIPE',
  'PROTOCOL_CONNECTION_LOST',
]);

/** How OpenSSL's and Node's messages about a wrong certificate begin. The core knows these errors by codes that mysql2 replaces. */
const WRONG_CERTIFICATE =
  /^(Hostname\/IP does not match|self[- ]signed certificate|unable to (verify the first|get (local )?issuer) certificate|certificate (signature failure|not trusted|has expired|is not yet valid))/;

/**
 * Whether a log-in failed so that only a change of the set-up helps: the user is refused, TLS does not fit, or a function of the
 * application could not provide the credentials.
 */
export function isRefusedLogIn(error: unknown): boolean {
  if (isEvenkeelError(error, 'EVENKEEL_OPTION')) return true;
  const { code, errno, message } = (error ?? {}) as { readonly [name in 'code' | 'errno' | 'message']?: unknown };
  if (code === 'HANDSHAKE_NO_SSL_SUPPORT') return true;
  // mysql2 gives this code to every TLS error, even to the loss of a connection.
  if (code === 'HANDSHAKE_SSL_ERROR') return WRONG_CERTIFICATE.test(String(message));
  return REFUSED_LOG_INS.has(errno);
}

/**
 * What it means that a server with open connections refused another one: `full` (it has too many), `stopping` (its listener is closed),
 * `silent` (it accepts connections, but does not greet), or `unknown`.
 */
export function refusalOf(error: Error | undefined): ConnectRefusal {
  // A function of the application did not provide the credentials: no connection can be opened now, through no fault of the server.
  if (isEvenkeelError(error, 'EVENKEEL_OPTION')) return 'full';
  const { code, errno } = (error ?? {}) as { readonly code?: unknown; readonly errno?: unknown };
  if (NO_MORE.has(errno) || NO_MORE.has(code)) return 'full';
  if (code === 'ECONNREFUSED') return 'stopping';
  return code === 'ETIMEDOUT' ? 'silent' : 'unknown';
}
