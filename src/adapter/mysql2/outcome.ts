import { isEvenkeelError, type Outcome, outcomes } from '../../index.js';
import { outcomeOfSystemError } from '../kit/index.js';
import { isOwnFault, wasReadToItsEnd } from './own-faults.js';

/** The server did its work: it says that it takes no writes. Told apart by identity from any other success. */
export const readOnlyOutcome: Outcome = Object.freeze({ kind: 'success' });

/** What an error says of a statement that was sent: how it ended, and whether the server provably did nothing. */
export interface Verdict {
  readonly outcome: Outcome;
  /** The statement had no effect and may be sent elsewhere, whatever it was. */
  readonly unsent: boolean;
  /** Whether the connection can take another statement. */
  readonly usable: boolean;
  /**
   * Whether it is closed when its present user has done with it: a new one may lead to another server, one that takes
   * writes. That is how databases behind one address fail over (Aurora, a ClusterIP, a proxy); mysql2's pool does the same.
   */
  readonly discard: boolean;
}

const verdict = (outcome: Outcome, unsent: boolean, usable: boolean, discard = false): Verdict =>
  Object.freeze({ outcome, unsent, usable, discard });

const answered = verdict(outcomes.success, false, true);
const readOnly = verdict(readOnlyOutcome, true, true, true);
/** An option forbids it, or the transaction. */
const forbidden = verdict(outcomes.success, false, true, true);
const lost = verdict(outcomes.reset, false, false);
const timedOut = verdict(outcomes.timeout, false, false);
const refused = verdict(outcomes.notStarted, true, false);
const broken = verdict(outcomes.protocol, false, false);
/** The server answered, but mysql2 stopped reading half-way: the rest of the answer is still on the connection. */
const unread = verdict(outcomes.success, false, false);

/** Error numbers of servers that do not speak of the statement but of the server or the connection. */
const byNumber: Readonly<Record<number, Verdict>> = {
  1021: verdict(outcomes.status, false, true), // ER_DISK_FULL
  1037: verdict(outcomes.status, false, true), // ER_OUTOFMEMORY
  1038: verdict(outcomes.status, false, true), // ER_OUT_OF_SORTMEMORY
  1041: verdict(outcomes.status, false, true), // ER_OUT_OF_RESOURCES
  1053: lost, // ER_SERVER_SHUTDOWN: it may have been half done
  1152: lost, // ER_ABORTING_CONNECTION
  1158: lost, // ER_NET_READ_ERROR
  1159: lost, // ER_NET_READ_INTERRUPTED
  1160: lost, // ER_NET_ERROR_ON_WRITE
  1161: lost, // ER_NET_WRITE_INTERRUPTED
  1184: lost, // ER_NEW_ABORTING_CONNECTION
  1792: forbidden, // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
  1836: readOnly, // ER_READ_ONLY_MODE
  1927: lost, // ER_CONNECTION_KILLED (MariaDB)
  3169: lost, // ER_SESSION_WAS_KILLED (MySQL)
  4031: refused, // ER_CLIENT_INTERACTION_TIMEOUT: it had hung up before the statement came
};

/** ER_OPTION_PREVENTS_STATEMENT: some option of the server forbids it; one of them says that it takes no writes. */
const OPTION_PREVENTS = 1290;
/** ER_UNKNOWN_COM_ERROR: a Galera node that is not in step says so before it looks at the statement. */
const UNKNOWN_COMMAND = 1047;

/** Codes of mysql2. */
const byCode: Readonly<Record<string, Verdict>> = {
  PROTOCOL_SEQUENCE_TIMEOUT: timedOut,
  PROTOCOL_CONNECTION_LOST: lost,
};

/**
 * What an error of a statement says. An error the server answers with (a duplicate key, a deadlock, a syntax error) is
 * the application's: the server did its work.
 */
export function verdictOf(error: unknown): Verdict {
  if (typeof error !== 'object' || error === null) return broken;
  if (isOwnFault(error)) return wasReadToItsEnd(error) ? answered : unread;
  const { code, errno, message, sqlState } = error as {
    readonly code?: unknown;
    readonly errno?: unknown;
    readonly message?: unknown;
    readonly sqlState?: unknown;
  };
  // Errors of the system have a number, too, but a negative one and no state.
  if (typeof errno === 'number' && errno > 0 && typeof sqlState === 'string') {
    if (errno === OPTION_PREVENTS) return /read.only/i.test(String(message)) ? readOnly : forbidden;
    if (errno === UNKNOWN_COMMAND && /wsrep/i.test(String(message))) return verdict(outcomes.status, true, true);
    return byNumber[errno] ?? answered;
  }
  if (isEvenkeelError(error))
    return error.code === 'EVENKEEL_CLOSED' ? verdict(outcomes.cancelled, false, false) : lost;
  const known = typeof code === 'string' ? byCode[code] : undefined;
  if (known !== undefined) return known;
  if (outcomeOfSystemError(code) !== undefined) return lost;
  // What mysql2 says without a code where it was given no way to a file the server asks for: it sent an empty one.
  if (/^As a result of LOCAL INFILE command/.test(String(message))) return answered;
  // … and when the connection was closed before.
  return /in closed state|pool is closed/i.test(String(message)) ? refused : broken;
}

/** Error numbers with which a server refuses our user. It will keep refusing until somebody changes that. */
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

/** Whether a log-in failed because of who we are, or because a function of the application does not say who that is. */
export function isRefusedLogIn(error: unknown): boolean {
  if (isEvenkeelError(error, 'EVENKEEL_OPTION')) return true;
  return REFUSED_LOG_INS.has((error as { readonly errno?: unknown } | undefined)?.errno);
}
