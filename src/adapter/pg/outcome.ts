import { isEvenkeelError, type Outcome, outcomes } from '../../index.js';
import { outcomeOfSystemError } from '../kit/index.js';
import { isClosedByServer, isConnectionLoss, isReadTimeout } from './internals.js';

/** What the error of a statement that was sent means for the statement, its server and its connection. */
export interface PgVerdict {
  readonly outcome: Outcome;
  /**
   * Whether the server closed the connection before it read the statement, which may then be sent to another server even if it is not
   * idempotent.
   */
  readonly unsent: boolean;
  /** Whether the connection can take another statement after the error. */
  readonly usable: boolean;
}

const verdict = (outcome: Outcome, unsent: boolean, usable: boolean): PgVerdict =>
  Object.freeze({ outcome, unsent, usable });

/** The server executed or refused the statement as it should: the error is the application's. */
const answered = verdict(outcomes.success, false, true);
const troubled = verdict(outcomes.status, false, true);
const lost = verdict(outcomes.reset, false, false);
const timedOut = verdict(outcomes.timeout, false, false);
const hungUp = verdict(outcomes.notStarted, true, false);
/** PgBouncer had no connection to the server for the statement, so the server never saw it. */
const unserved = verdict(outcomes.status, true, false);

/** What errors about the server or the connection mean, by SQLSTATE. Errors with any other SQLSTATE are about the statement. */
const byState: ReadonlyMap<string, PgVerdict> = new Map([
  // A statement that fails so may have been executed: a server that waits for its standbys sends this error even after the commit.
  ['57P01', lost], // admin_shutdown
  ['57P02', lost], // crash_shutdown
  ['57P04', lost], // database_dropped
  ['25P03', lost], // idle_in_transaction_session_timeout
  // The server sent this error while the connection was idle, before the statement arrived.
  ['57P05', hungUp], // idle_session_timeout
  // Servers send these errors only in response to log-ins.
  ['57P03', hungUp], // cannot_connect_now
  ['53300', hungUp], // too_many_connections
  ['53100', troubled], // disk_full
  ['53200', troubled], // out_of_memory
  ['XX001', troubled], // data_corrupted
  ['XX002', troubled], // index_corrupted
]);

/** The SQLSTATE of most errors of PgBouncer, which differ only in their messages. */
const PGBOUNCER = '08P01';

/** PgBouncer's messages to clients that wait for a connection to the server: the server has seen nothing of their statement. */
const UNSERVED =
  /^(?:query_wait_timeout|server login (?:has been failing|failed)|server shutting down|pooler is shutting)/;

/** Messages by which PgBouncer says that it has no room for another connection. */
const NO_PLACE = /^(?:no more connections allowed|client connections exceeded)/;

/** Messages by which PgBouncer refuses a log-in that would fail again. */
const REFUSED_BY_PGBOUNCER =
  /^(?:unsupported (?:options )?startup parameter|no such (?:user|database)|SSL required|login rejected|.* authentication failed)/;

/** The SQLSTATE by which a server refuses a change because it accepts no writes. */
export const READ_ONLY = '25006';

/**
 * The SQLSTATEs by which a standby says that replication canceled the statement. The statement changed nothing, and another standby may
 * execute it.
 */
const CONFLICTS: ReadonlySet<unknown> = new Set(['40001', '40P01']);

/** An error that may come from a PostgreSQL server or from pg. */
interface PgError {
  readonly code?: unknown;
  readonly severity?: unknown;
  readonly message?: unknown;
}

/** The SQLSTATE of an error from a server; undefined for any other error. */
export function sqlState(error: unknown): string | undefined {
  const { code, severity } = (error ?? {}) as PgError;
  return typeof code === 'string' && code.length === 5 && typeof severity === 'string' ? code : undefined;
}

/** What the error of a statement means for the statement, its server and its connection. */
export function verdictOf(error: unknown): PgVerdict {
  const state = sqlState(error);
  if (state !== undefined) {
    const byItsState = byState.get(state);
    if (byItsState !== undefined) return byItsState;
    if (state === PGBOUNCER && UNSERVED.test(String((error as PgError).message))) return unserved;
    if (state.startsWith('08')) return lost;
    if (state.startsWith('58')) return troubled; // system_error, io_error
    return (error as PgError).severity === 'FATAL' ? lost : answered;
  }
  if (isEvenkeelError(error, 'EVENKEEL_CLOSED')) return verdict(outcomes.cancelled, false, false);
  const { code, message } = (error ?? {}) as PgError;
  if (isReadTimeout(message)) return timedOut;
  if (outcomeOfSystemError(code) !== undefined || isEvenkeelError(error)) return lost;
  if (isConnectionLoss(message)) return lost;
  // pg could not send the statement or read its answer: a value is unsupported, or a type parser threw.
  return verdict(outcomes.success, false, true);
}

/**
 * What an error on a session says about its server, whatever its user runs there. A transaction that its user left idle for too long says
 * nothing.
 */
export function outcomeOnSession(error: unknown): Outcome {
  const { outcome } = verdictOf(error);
  return outcome.kind === 'failure' && sqlState(error) !== '25P03' ? outcome : outcomes.success;
}

/** Whether the server itself ended the session: it gave a reason, or it closed the connection while no statement ran. */
export function isOrderlyEnd(error: unknown, isIdle: boolean): boolean {
  if (sqlState(error) !== undefined) return true;
  return isIdle && isClosedByServer((error as PgError | undefined)?.message);
}

/** Whether a standby canceled the statement in favor of replication. */
export function isReplayConflict(error: unknown): boolean {
  return CONFLICTS.has(sqlState(error));
}

/** What a refused connection or log-in means for the server. */
export type PgRefusal = 'full' | 'stopping' | 'log-in' | 'unknown';

/** Classifies the error by which a connection could not be opened. */
export function refusalOf(error: unknown): PgRefusal {
  const state = sqlState(error);
  const { code, message } = (error ?? {}) as PgError;
  if (state === PGBOUNCER) return refusalOfPgBouncer(String(message));
  if (state === '53300' || state === '53400') return 'full';
  if (state === '57P03' || code === 'ECONNREFUSED') return 'stopping';
  // The codes stand for invalid_authorization_specification, invalid_password, invalid_catalog_name and insufficient_privilege.
  if (state?.startsWith('28') || state === '3D000' || state === '42501') return 'log-in';
  return 'unknown';
}

function refusalOfPgBouncer(message: string): PgRefusal {
  if (NO_PLACE.test(message)) return 'full';
  if (/shutting down$/.test(message)) return 'stopping';
  return REFUSED_BY_PGBOUNCER.test(message) ? 'log-in' : 'unknown';
}

const CHANGE =
  /^(?:insert|update|delete|merge|truncate|create|drop|alter|grant|revoke|comment|with\b[\s\S]*\b(?:insert|update|delete|merge))\b/i;

/**
 * Whether a read-only server that refused this SQL text cannot have executed any part of it: the text is a single statement that changes
 * data or tables, which such a server refuses before it runs. A function call may have had side effects before its refusal.
 */
export function isWholeChange(text: unknown): boolean {
  return typeof text === 'string' && CHANGE.test(text.slice(statementStart(text))) && !/;\s*\S/.test(text);
}

/** The position in a SQL text after leading white space and comments. */
function statementStart(text: string): number {
  let at = 0;
  for (;;) {
    at = text.length - text.slice(at).trimStart().length;
    if (text.startsWith('--', at)) at = lineEnd(text, at);
    else if (text.startsWith('/*', at)) at = commentEnd(text, at);
    else return at;
  }
}

/** The position in a SQL text after a block comment; PostgreSQL's block comments nest. */
function commentEnd(text: string, start: number): number {
  let depth = 0;
  for (const { 0: edge, index } of text.slice(start).matchAll(/\/\*|\*\//g)) {
    depth += edge === '/*' ? 1 : -1;
    if (depth === 0) return start + index + 2;
  }
  return text.length;
}

function lineEnd(text: string, start: number): number {
  const end = text.indexOf('\n', start);
  return end === -1 ? text.length : end;
}
