import type { QueryOptions } from 'mysql2';
import { EvenkeelError, type Priority } from '../../../index.js';
import { checkBoolean, checkNumber, checkPriority } from '../../kit/index.js';
import { withOwnFunctions } from '../own-functions.js';
import type { Answer } from '../server/mysql2-objects.js';

/** Options of `query` and `execute` in addition to mysql2's. */
export interface StatementOptions extends QueryOptions {
  /**
   * Whether the statement may run twice without harm, as one that only reads: if its connection dies before the answer, it is sent to
   * another server. @defaultValue the service's `idempotent`
   */
  readonly idempotent?: boolean | undefined;
  /** For hash pickers: statements with one key go to one server. @defaultValue none */
  readonly key?: string | undefined;
  /**
   * Which statements go first where they wait for a connection, and with a `limit` which are turned away first.
   * @defaultValue 'default'
   */
  readonly priority?: Priority | undefined;
}

/** A statement as a caller gave it, checked. */
export interface Statement {
  readonly method: 'query' | 'execute';
  /** For mysql2, without our options. */
  readonly sql: unknown;
  readonly values: unknown;
  readonly key: string | undefined;
  readonly priority: Priority | undefined;
  /** `undefined`: as the service says. */
  readonly idempotent: boolean | undefined;
  readonly timeoutMs: number | undefined;
}

/** A statement that changes something, after white space and comments, except those the server executes. */
const CHANGE =
  /^(?:\s|--\s.*\n|#.*\n|\/\*(?![!M])(?:(?!\*\/)[\s\S])*\*\/)*(?:insert|update|delete|replace|load|truncate|create|drop|alter|rename)\b/i;

/**
 * Whether a statement a server refused had no effect at all. A single change has none; of a statement that runs others, such as CALL,
 * the first may have been done.
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

/** Throws EVENKEEL_OPTION for anything that is not a statement. */
export function parseStatement(method: 'query' | 'execute', [sql, values]: StatementArguments): Statement {
  const given = typeof values === 'function' ? undefined : values;
  if (typeof sql === 'string') {
    return {
      method,
      sql,
      values: given,
      key: undefined,
      priority: undefined,
      idempotent: undefined,
      timeoutMs: undefined,
    };
  }
  if (typeof sql !== 'object' || sql === null || typeof (sql as { sql?: unknown }).sql !== 'string') {
    // The value is not shown: it may be anything.
    throw new EvenkeelError('EVENKEEL_OPTION', `${method}: sql must be a string, or an object with one as its \`sql\``);
  }
  const { idempotent, key, priority, timeout, ...rest } = sql as StatementOptions;
  if (key !== undefined && typeof key !== 'string') {
    throw new EvenkeelError('EVENKEEL_OPTION', `${method}: key must be a string`);
  }
  return {
    method,
    // These two may be inherited, as in the objects tagged templates make. mysql2 reads inherited ones, too.
    sql: {
      ...withOwnFunctions(rest),
      sql: (sql as StatementOptions).sql,
      values: (sql as StatementOptions).values,
    },
    values: given,
    key,
    priority: priority === undefined ? undefined : checkPriority(priority),
    idempotent: idempotent === undefined ? undefined : checkBoolean('idempotent', idempotent, false),
    // 0 means no limit, as in mysql2.
    timeoutMs: checkNumber('timeout', timeout, 0, { min: 0, max: 2 ** 31 - 1, infinite: true }) || undefined,
  };
}
