import { type Balancer, type Lease, type Outcome, outcomes } from '../../index.js';
import { type AttemptedCall, Attempts, asError, type CallFacts, outcomeOfSystemError } from '../kit/index.js';
import type { Read, Replica } from './connection.js';

/** What reads share. */
export interface ReadOwner {
  readonly balancer: Balancer<Replica>;
  /** Whether the primary answers reads that no replica can. */
  readonly fallsBack: boolean;
}

/** One read over all its attempts. */
export class ReplicaRead implements AttemptedCall<Replica> {
  /** Undefined: as long as the balancer lets calls wait. */
  readonly waitTimeoutMs: number | undefined;
  readonly #owner: ReadOwner;
  readonly #read: Read;
  readonly #attempts: Attempts<Replica>;
  #isWaiting = false;

  constructor(owner: ReadOwner, read: Read) {
    this.#owner = owner;
    this.#read = read;
    this.#attempts = new Attempts(owner.balancer, this, undefined);
    this.waitTimeoutMs = owner.fallsBack ? 0 : undefined;
  }

  begin(): void {
    if (this.#attempts.begin()) return;
    if (this.#owner.fallsBack) {
      this.#attempts.stop();
      this.#read.sendToPrimary();
    } else this.#attempts.wait();
  }

  facts(): CallFacts {
    return { protocol: 'redis', method: 'read' };
  }

  send(lease: Lease<Replica>): void {
    const replica = lease.handle;
    replica.callBegins();
    replica.send(this.#read).then(
      (answer) => {
        replica.callEnds();
        this.#attempts.end(outcomes.success);
        this.#read.answered(answer);
      },
      (cause) => {
        replica.callEnds();
        this.#failed(replica, asError(cause));
      },
    );
  }

  /** It may be sent once more, and has been paid for, but no replica can take it now. */
  waitBegan(): void {
    this.#isWaiting = true;
  }

  waitEnded(): void {}

  fail(error: unknown): void {
    if (this.#isWaiting && this.#owner.fallsBack) this.#read.sendToPrimary();
    else this.#read.failed(asError(error));
  }

  #failed(replica: Replica, error: Error): void {
    const { outcome, repeatAs = outcome, untried = false, cut = false } = verdictOf(error) ?? answered;
    // It says that it cannot serve: no need to wait for the next question.
    if (repeatAs === outcomes.notStarted && !untried) replica.doubted(error);
    this.#attempts.fail({
      outcome,
      repeatAs,
      untried,
      cut,
      error,
      idempotent: true,
      answered: outcome === outcomes.success,
    });
  }
}

interface Verdict {
  readonly outcome: Outcome;
  readonly repeatAs?: Outcome;
  /** It was not sent. */
  readonly untried?: boolean;
  /** Its connection was cut, under it and all others. */
  readonly cut?: boolean;
}

const answered: Verdict = { outcome: outcomes.success };
const unsent: Verdict = { outcome: outcomes.notStarted, untried: true };
const refused: Verdict = { outcome: outcomes.status, repeatAs: outcomes.notStarted };
const lost: Verdict = { outcome: outcomes.reset, cut: true };
const timedOut: Verdict = { outcome: outcomes.timeout };
/** The caller's signal. */
const cancelled: Verdict = { outcome: outcomes.cancelled };

/** Answers of a replica that ran nothing: it loads its data, has lost its primary, or is busy with a script. */
const REFUSAL = /^(?:LOADING|MASTERDOWN|BUSY) /;

/** What an error means if it is not an answer to the command; undefined if it is. */
export function verdictOf(error: unknown): Verdict | undefined {
  const { name, message = '', code } = (error ?? {}) as { name?: string; message?: string; code?: unknown };
  if (REFUSAL.test(message)) return refused;
  if (name === 'ReplyError') return undefined;
  if (name === 'AbortError' || name === 'MaxRetriesPerRequestError') return lost;
  return byMessage.get(message) ?? (outcomeOfSystemError(code) === undefined ? undefined : lost);
}

/** By the messages of ioredis and node-redis, whose errors have no codes. */
const byMessage: ReadonlyMap<string, Verdict> = new Map([
  ['Connection is closed.', lost],
  ["Stream isn't writeable and enableOfflineQueue options is false", unsent],
  ['Command timed out', timedOut],
  ['Socket closed unexpectedly', lost],
  ['Disconnects client', lost],
  ['The client is closed', unsent],
  ['The client is offline', unsent],
  ['The command was aborted', cancelled],
]);

/** Whether a replica refused the log-in: trying again soon is of no use. */
export function isLogInRefused(error: unknown): boolean {
  return /^(?:WRONGPASS|NOAUTH|NOPERM|ERR (?:invalid password|AUTH ))/.test(String((error as Error)?.message));
}
