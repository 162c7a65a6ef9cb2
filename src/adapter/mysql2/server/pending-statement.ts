import type { Clock } from '../../../index.js';
import { queryTimeout } from '../outcome.js';
import { ownErrors, withOwnFunctions } from '../own-functions.js';

/** How a statement ended. */
export type Answer = (error: Error | null, rows?: unknown, fields?: unknown) => void;

/** What it goes by. */
export interface PendingStatementLimits {
  readonly clock: Clock;
  readonly address: string;
  /** For a statement without a time-out of its own, in ms; Infinity = no limit. */
  readonly queryTimeoutMs: number;
}

/** A statement of a caller who has the connection, as it is given to mysql2. */
export interface PendingStatement {
  readonly args: readonly unknown[];
  /** Whether `failed` hears of its errors by the callback; otherwise they are events of its command. */
  readonly hasCallback: boolean;
  /** How long it may take, in ms; Infinity = no limit. With a callback it is seen to here. */
  readonly limitMs: number;
  /** It was not sent. */
  cancel(): void;
}

/**
 * Takes a statement in the forms of mysql2, gives it its time-out (mysql2 has none for the preparing of one) and tells
 * `failed` of its error before the caller hears of it.
 */
export function holdStatement(
  args: readonly unknown[],
  limits: PendingStatementLimits,
  failed: (error: Error) => void,
): PendingStatement {
  const [statement] = args;
  // Commands of mysql2 and objects of tagged templates are passed on as they are.
  const isPlain =
    typeof statement === 'object' && statement !== null && Object.getPrototypeOf(statement) === Object.prototype;
  const { timeout, ...others } = isPlain ? (statement as { readonly timeout?: unknown }) : {};
  const rest = withOwnFunctions(others);
  const { clock, address, queryTimeoutMs } = limits;
  const limitMs = typeof timeout === 'number' && timeout > 0 ? timeout : queryTimeoutMs;
  const sent = isPlain ? rest : statement;
  const last = args.findLastIndex((arg) => typeof arg === 'function');
  if (last === -1) return { args: [sent, ...args.slice(1)], hasCallback: false, limitMs, cancel: () => {} };
  const given = ownErrors(args[last] as Answer);
  let over = false;
  const answer: Answer = (error, rows, fields) => {
    if (over) return;
    over = true;
    timer?.cancel();
    if (error) failed(error);
    given(error, rows, fields);
  };
  const timer = Number.isFinite(limitMs)
    ? clock.timer(() => answer(queryTimeout(address, limitMs)), limitMs)
    : undefined;
  return {
    args: [sent, ...args.slice(1, last), answer],
    hasCallback: true,
    limitMs,
    cancel: () => timer?.cancel(),
  };
}
