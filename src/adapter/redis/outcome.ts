import { type Outcome, outcomes } from '../../index.js';
import { outcomeOfSystemError } from '../kit/index.js';
import { type FailureKind, failureKindOf } from './internals.js';

/** What an error means for a command and its connection, if the error is not the server's answer to the command. */
export interface RedisVerdict {
  readonly outcome: Outcome;
  readonly repeatAs?: Outcome;
  /** `free` if the command was never sent; `first-free` if the connection was cut, which ended all commands that ran on it. */
  readonly resend?: 'free' | 'first-free';
}

const refused: RedisVerdict = { outcome: outcomes.status, repeatAs: outcomes.notStarted };
const lost: RedisVerdict = { outcome: outcomes.reset, resend: 'first-free' };

const verdicts: Readonly<Record<FailureKind, RedisVerdict>> = {
  lost,
  unsent: { outcome: outcomes.notStarted, resend: 'free' },
  'timed-out': { outcome: outcomes.timeout },
  'called-off': { outcome: outcomes.cancelled },
};

/** Errors by which a server says that it is a node of a Redis Cluster, which has only a part of the data. */
const CLUSTER = /^(?:MOVED|ASK|TRYAGAIN|CROSSSLOT|CLUSTERDOWN) /;
/** Errors of a server that executed nothing: it loads its data, has lost its primary, is busy with a script, or requires a log-in. */
const REFUSAL = /^(?:LOADING|MASTERDOWN|BUSY|NOAUTH) /;

/** What an error means if it is not an answer to the command; undefined for an answer. */
export function verdictOf(error: unknown): RedisVerdict | undefined {
  const { name, message = '', code } = (error ?? {}) as { name?: string; message?: string; code?: unknown };
  if (REFUSAL.test(message) || CLUSTER.test(message)) return refused;
  if (name === 'ReplyError') return undefined;
  const kind = failureKindOf({ name, message });
  if (kind !== undefined) return verdicts[kind];
  return outcomeOfSystemError(code) === undefined ? undefined : lost;
}

/** Whether an error answer says that the server is a node of a Redis Cluster. */
export function isOfCluster({ message }: Error): boolean {
  return CLUSTER.test(message);
}

/** Whether a server refused the log-in, so that trying again soon is of no use. */
export function isLogInRefused(error: unknown): boolean {
  return /^(?:WRONGPASS|NOAUTH|NOPERM|ERR (?:invalid password|AUTH ))/.test(String((error as Error)?.message));
}
