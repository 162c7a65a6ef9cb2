import { describe, expect, it } from 'vitest';
import { readOnlyOutcome, verdictOf } from '../../../../src/adapter/mysql2/outcome.js';
import { applicationError } from '../../../../src/adapter/mysql2/own-functions.js';
import { EvenkeelError, outcomes } from '../../../../src/index.js';

/** As mysql2 makes it from what a server answers. */
const answered = (errno: number, code: string, message = code): Error =>
  Object.assign(new Error(message), { errno, code, sqlState: 'HY000', sqlMessage: message });
const failed = (code: string, message = code): Error => Object.assign(new Error(message), { code, fatal: true });

describe('an error of a statement', () => {
  it.each([
    ['a syntax error', answered(1064, 'ER_PARSE_ERROR')],
    ['a duplicate key', answered(1062, 'ER_DUP_ENTRY')],
    ['a deadlock', answered(1213, 'ER_LOCK_DEADLOCK')],
    ['a lock that was not given up in time', answered(1205, 'ER_LOCK_WAIT_TIMEOUT')],
    ['a statement that was killed', answered(1317, 'ER_QUERY_INTERRUPTED')],
    ['a missing permission', answered(1142, 'ER_TABLEACCESS_DENIED_ERROR')],
    [
      'a file mysql2 was given no way to',
      new Error('As a result of LOCAL INFILE command server wants to read x file, but as of v2.0 you must provide'),
    ],
    ['an unknown command', answered(1047, 'ER_UNKNOWN_COM_ERROR', 'Unknown command')],
    ['an error of later years', answered(9999, 'ER_NEW')],
  ])('%s is not held against the server: it did its work', (_what, error) => {
    expect(verdictOf(error)).toEqual({ outcome: outcomes.success, unsent: false, usable: true, discard: false });
  });

  it.each([
    [
      'an option in the way',
      answered(1290, 'ER_OPTION_PREVENTS_STATEMENT', 'running with the --secure-file-priv option'),
    ],
    ['a read-only transaction', answered(1792, 'ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION')],
  ])(
    '%s is not held against the server, but the connection is closed when released, as in a pool of mysql2',
    (_what, error) => {
      expect(verdictOf(error)).toEqual({ outcome: outcomes.success, unsent: false, usable: true, discard: true });
    },
  );

  it.each([
    [1290, 'The MariaDB server is running with the --read-only option so it cannot execute this statement'],
    [1290, 'The MySQL server is running with the --super-read-only option so it cannot execute this statement'],
    [1836, 'Running in read-only mode'],
  ])('%i, %s: the server takes no writes', (errno, message) => {
    const verdict = verdictOf(answered(errno, 'ER', message));
    expect(verdict.outcome).toBe(readOnlyOutcome);
    expect(verdict).toMatchObject({ unsent: true, usable: true, discard: true });
  });

  it.each([
    [answered(1053, 'ER_SERVER_SHUTDOWN'), 'reset'],
    [answered(1927, 'ER_CONNECTION_KILLED'), 'reset'],
    [failed('PROTOCOL_CONNECTION_LOST'), 'reset'],
    [failed('ECONNRESET'), 'reset'],
    [failed('EPIPE'), 'reset'],
    [failed('ETIMEDOUT'), 'reset'],
    [failed('PROTOCOL_SEQUENCE_TIMEOUT'), 'timeout'],
    [failed('PROTOCOL_ERROR'), 'protocol'],
    [new TypeError('while mysql2 reads'), 'protocol'],
    ['no error at all', 'protocol'],
    [undefined, 'protocol'],
  ])('%s: a failure (%s) of a statement that may have run in part, on a connection that is lost', (error, cause) => {
    expect(verdictOf(error)).toMatchObject({ outcome: { kind: 'failure', cause }, unsent: false, usable: false });
  });

  it('from the server itself is a failure, on a connection that can be used again', () => {
    expect(verdictOf(answered(1021, 'ER_DISK_FULL'))).toMatchObject({ outcome: outcomes.status, usable: true });
    expect(verdictOf(answered(1047, 'ER_UNKNOWN_COM_ERROR', 'WSREP has not yet prepared node'))).toMatchObject({
      outcome: outcomes.status,
      unsent: true,
      usable: true,
    });
  });

  it.each([
    [1226, 'ER_USER_LIMIT_REACHED', "User 'app' has exceeded the 'max_queries_per_hour' resource (current value: 10)"],
    [1461, 'ER_MAX_PREPARED_STMT_COUNT_REACHED', "Can't create more than max_prepared_stmt_count statements"],
  ])('%i, %s: a limit of this server is used up, and nothing was done', (errno, code, message) => {
    expect(verdictOf(answered(errno, code, message))).toEqual({
      outcome: outcomes.status,
      unsent: true,
      usable: true,
      discard: false,
    });
  });

  it('that came before the statement: nothing was done', () => {
    for (const error of [
      answered(4031, 'ER_CLIENT_INTERACTION_TIMEOUT'),
      failed('', "Can't add new command when connection is in closed state"),
      new Error('Pool is closed.'),
    ]) {
      expect(verdictOf(error)).toMatchObject({ outcome: outcomes.notStarted, unsent: true });
    }
  });

  it('from a function of the application is not held against the server, but the result was not read to its end', () => {
    const verdict = { outcome: outcomes.success, unsent: false, usable: false };
    expect(verdictOf(applicationError(new TypeError('a mistake'), 'typeCast'))).toMatchObject(verdict);
    expect(verdictOf(applicationError('no error', 'typeCast'))).toMatchObject(verdict);
    // Whatever it looks like.
    expect(verdictOf(applicationError(failed('ECONNRESET', 'read ECONNRESET'), 'typeCast'))).toMatchObject(verdict);
    // Of a file, mysql2 tells when the server has answered.
    expect(verdictOf(applicationError(failed('ENOENT'), 'infileStreamFactory', true))).toMatchObject({
      ...verdict,
      usable: true,
    });
    expect(verdictOf(new TypeError('a mistake')).outcome).toBe(outcomes.protocol);
  });

  it('that we caused ourselves is not held against the server', () => {
    expect(verdictOf(new EvenkeelError('EVENKEEL_CLOSED', 'cut')).outcome).toBe(outcomes.cancelled);
  });
});
