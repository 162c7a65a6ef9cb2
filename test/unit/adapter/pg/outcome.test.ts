import { EvenkeelError } from 'evenkeel';
import { describe, expect, it } from 'vitest';
import { isReplayConflict, isWholeChange, refusalOf, sqlState, verdictOf } from '../../../../src/adapter/pg/outcome.js';

const server = (code: string, severity = 'ERROR'): Error => Object.assign(new Error('it says'), { code, severity });
const pgBouncer = (message: string): Error => Object.assign(new Error(message), { code: '08P01', severity: 'FATAL' });
const system = (code: string): Error => Object.assign(new Error(code), { code });

describe('the meaning of a PostgreSQL error', () => {
  it.each([
    ['23505', 'ERROR', 'success', false, true],
    ['40001', 'ERROR', 'success', false, true],
    ['57014', 'ERROR', 'success', false, true],
    ['25006', 'ERROR', 'success', false, true],
    ['53100', 'ERROR', 'failure', false, true],
    ['58030', 'ERROR', 'failure', false, true],
    ['57P01', 'FATAL', 'failure', false, false],
    ['57P02', 'FATAL', 'failure', false, false],
    ['40001', 'FATAL', 'failure', false, false],
    ['25P03', 'FATAL', 'failure', false, false],
    ['08P01', 'FATAL', 'failure', false, false],
    ['57P05', 'FATAL', 'not-started', true, false],
    ['57P03', 'FATAL', 'not-started', true, false],
    ['53300', 'FATAL', 'not-started', true, false],
  ])('%s %s: %s', (code, severity, kind, unsent, usable) => {
    const verdict = verdictOf(server(code, severity));
    expect({ kind: verdict.outcome.kind, unsent: verdict.unsent, usable: verdict.usable }).toEqual({
      kind,
      unsent,
      usable,
    });
  });

  it.each([
    ['server conn crashed?', false],
    ['query timeout', false],
    ['query_wait_timeout', true],
    ['server login has been failing, try again later (server_login_retry)', true],
    ['server login has been failing, cached error: connect failed (server_login_retry)', true],
    ['server login failed: wrong password type', true],
    ['server shutting down', true],
  ])('PgBouncer: %s', (message, unsent) => {
    const { outcome, ...verdict } = verdictOf(pgBouncer(message));
    expect(outcome.kind).toBe('failure');
    expect(verdict).toEqual({ unsent, usable: false });
  });

  it.each([
    ['no more connections allowed (max_client_conn)', 'full'],
    ['client connections exceeded (max_db_client_connections)', 'full'],
    ['pooler is shutting down', 'stopping'],
    ['unsupported startup parameter: statement_timeout', 'log-in'],
    ['unsupported startup parameter in options: geqo', 'log-in'],
    ['no such database: nowhere', 'log-in'],
    ['no such user', 'log-in'],
    ['SASL authentication failed', 'log-in'],
    ['password authentication failed', 'log-in'],
    ['database "shop" is disabled', 'unknown'],
    ['client_login_timeout (server down)', 'unknown'],
    ['bouncer config error', 'unknown'],
  ])('PgBouncer refuses a connection: %s', (message, refusal) => {
    expect(refusalOf(pgBouncer(message))).toBe(refusal);
  });

  it('distinguishes a lost connection from a slow answer and from what pg refuses to send', () => {
    expect(verdictOf(system('ECONNRESET'))).toMatchObject({ outcome: { cause: 'reset' }, usable: false });
    expect(verdictOf(new Error('Connection terminated unexpectedly'))).toMatchObject({ usable: false });
    expect(verdictOf(new Error('Query read timeout'))).toMatchObject({ outcome: { cause: 'timeout' }, usable: false });
    expect(verdictOf(new Error('Query values must be an array'))).toMatchObject({ outcome: { kind: 'success' } });
    expect(verdictOf(new EvenkeelError('EVENKEEL_CLOSED', 'cut'))).toMatchObject({ outcome: { kind: 'cancelled' } });
    expect(verdictOf(undefined)).toMatchObject({ usable: true });
  });

  it('distinguishes the reasons why a connection was refused', () => {
    expect(refusalOf(server('53300'))).toBe('full');
    expect(refusalOf(server('57P03'))).toBe('stopping');
    expect(refusalOf(system('ECONNREFUSED'))).toBe('stopping');
    expect(refusalOf(server('28P01'))).toBe('log-in');
    expect(refusalOf(server('3D000'))).toBe('log-in');
    expect(refusalOf(new Error('no session within 2000 ms'))).toBe('unknown');
    expect(sqlState(system('EPIPE'))).toBeUndefined();
    expect(isReplayConflict(server('40001'))).toBe(true);
  });

  it.each([
    ['INSERT INTO a VALUES (1)', true],
    ['-- a note\n /* and one more */ update a set b = 1;', true],
    ['WITH x AS (SELECT 1) INSERT INTO a SELECT * FROM x', true],
    ['INSERT INTO a VALUES (1); COMMIT; INSERT INTO a VALUES (2)', false],
    ['SELECT write_somewhere()', false],
    ['CALL do_it()', false],
    ['DO $$ BEGIN COMMIT; END $$', false],
    ['/* one /* in another */ insert */ SELECT write_somewhere()', false],
    ['/* one /* in another */ -- */ insert into a values (1)', true],
    ['/* one /* in another */ */ -- insert\n delete from a', true],
    ['-- insert into a values (1)', false],
    ['/* insert into a values (1)', false],
    [undefined, false],
  ])('refused as a whole: %s', (text, whole) => {
    expect(isWholeChange(text)).toBe(whole);
  });

  it('skips any number of comments before a statement, in time linear in the text', () => {
    for (const comments of ['/**/', '/* a */ -- b\n', '/*/**/*/', '-- \n', ' ', '/* ', '/*']) {
      const text = comments.repeat(20_000);
      const isOpen = !comments.includes('*/') && comments.includes('/*');
      expect(isWholeChange(`${text}SELECT 1`)).toBe(false);
      expect(isWholeChange(`${text}INSERT INTO a VALUES (1)`)).toBe(!isOpen);
    }
  });
});
