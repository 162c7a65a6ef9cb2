import type { QueryOptions } from 'mysql2';
import { EvenkeelError } from '../../../index.js';
import { checkBoolean, checkNumber } from '../../kit/index.js';
import { withOwnFunctions } from '../own-functions.js';
import type { Answer } from '../server/mysql2-objects.js';

/** What `query` and `execute` take beside mysql2's own options. */
export interface StatementOptions extends QueryOptions {
  /**
   * The statement may be done twice without harm, as any that only reads: if its connection dies before the answer it is
   * sent to another server. @defaultValue the service's `idempotent`
   */
  readonly idempotent?: boolean | undefined;
  /** For hash pickers: statements with one key go to one server. @defaultValue none */
  readonly key?: string | undefined;
}

/** A statement, taken apart and checked. */
export interface Statement {
  readonly method: 'query' | 'execute';
  /** For mysql2, without what is ours. */
  readonly sql: unknown;
  readonly values: unknown;
  readonly key: string | undefined;
  /** `undefined`: as the service says. */
  readonly idempotent: boolean | undefined;
  readonly timeoutMs: number | undefined;
}

/** A change, after white space and comments, other than those the server reads. */
const CHANGE =
  /^(?:\s|--\s.*\n|#.*\n|\/\*(?![!M])(?:(?!\*\/)[\s\S])*\*\/)*(?:insert|update|delete|replace|load|truncate|create|drop|alter|rename)\b/i;

/**
 * Whether a statement that a server refused had no effect there: one change is done as a whole or not at all. Of what runs
 * other statements, such as CALL, the first may have been done.
 */
export function isWhole({ sql }: Statement): boolean {
  return CHANGE.test(typeof sql === 'string' ? sql : (sql as { readonly sql: string }).sql);
}

/** The forms of mysql2: (sql), (sql, values), (sql, callback), (sql, values, callback); sql may be an object of options. */
export type StatementArguments = readonly [sql: unknown, values?: unknown, callback?: unknown];

/** The callback of a call, if it has one. */
export function callbackOf([, values, callback]: StatementArguments): Answer | undefined {
  const last = callback ?? values;
  return typeof last === 'function' ? (last as Answer) : undefined;
}

/** Throws EVENKEEL_OPTION for what is no statement. */
export function parseStatement(method: 'query' | 'execute', [sql, values]: StatementArguments): Statement {
  const given = typeof values === 'function' ? undefined : values;
  if (typeof sql === 'string') {
    return { method, sql, values: given, key: undefined, idempotent: undefined, timeoutMs: undefined };
  }
  if (typeof sql !== 'object' || sql === null || typeof (sql as { sql?: unknown }).sql !== 'string') {
    // The value is not shown: it may be anything.
    throw new EvenkeelError('EVENKEEL_OPTION', `${method}: sql must be a string, or an object with one as its \`sql\``);
  }
  const { idempotent, key, timeout, ...rest } = sql as StatementOptions;
  if (key !== undefined && typeof key !== 'string') {
    throw new EvenkeelError('EVENKEEL_OPTION', `${method}: key must be a string`);
  }
  return {
    method,
    // These two may be inherited, as in the objects that tagged templates make; mysql2 reads them as well as it can, too.
    sql: {
      ...withOwnFunctions(rest),
      sql: (sql as StatementOptions).sql,
      values: (sql as StatementOptions).values,
    },
    values: given,
    key,
    idempotent: idempotent === undefined ? undefined : checkBoolean('idempotent', idempotent, false),
    // As mysql2 has it, 0 is none.
    timeoutMs: checkNumber('timeout', timeout, 0, { min: 0, max: 2 ** 31 - 1, infinite: true }) || undefined,
  };
}
