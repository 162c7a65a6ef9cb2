/** Who uses the sessions of a server: calls, which wait for them, and questions of our own, which are neither balanced nor counted. */
import { type Clock, EvenkeelError, endpointAddress } from '../../../index.js';
import { deadline } from '../../kit/index.js';
import type { Taken } from './idle-sessions.js';
import type { Session } from './session.js';

/** A call that asks a server for a session. Either `lent` or `notLent` is called, once, never before `borrow` has returned. */
export interface Borrower {
  lent(session: Session): void;
  /** It takes a while: a handshake or a ping is under way. May be called more than once. */
  waits(): void;
  /** Nothing was sent. */
  notLent(error: EvenkeelError, why: NotLent): void;
}

/**
 * `full`: the server opens no further connection but works on those it has. `unresponsive`: it does not answer. `left`: it is no
 * longer in the Service, and no connection was ready.
 */
export type NotLent = 'refused' | 'full' | 'unresponsive' | 'left';

/** One wait of a borrower, which may wait for the same server again later. */
export interface Wait {
  readonly borrower: Borrower;
}

/** The borrowers that wait for a handshake, a ping, or the credentials. If the server leaves the Service, they go to another server. */
export class WaitingBorrowers {
  /** The endpoint is not in the Service at the moment. */
  hasLeft = false;
  readonly #address: string;
  readonly #waits = new Set<Wait>();

  constructor(address: string) {
    this.#address = address;
  }

  add(borrower: Borrower): Wait {
    const wait = { borrower };
    this.#waits.add(wait);
    borrower.waits();
    return wait;
  }

  /** Ends a wait. False if the borrower has been sent away. */
  end(wait: Wait): boolean {
    return this.#waits.delete(wait);
  }

  left(): void {
    this.hasLeft = true;
    const waits = [...this.#waits];
    this.#waits.clear();
    for (const { borrower } of waits) this.sendAway(borrower);
  }

  /** Tells a borrower that the server has left. */
  sendAway(borrower: Borrower): void {
    const endpoint = this.#address;
    const message = `${endpoint} left the Service before the statement was sent`;
    borrower.notLent(new EvenkeelError('EVENKEEL_CONNECT', message, { endpoint }), 'left');
  }
}

/** Takes an idle session of the server, or opens one. */
type Take = (taken: Taken) => void;

/** Uses a session for one question; an abort ends that session. */
function askOn<T>(
  take: Take,
  signal: AbortSignal,
  use: (session: Session, resolve: (value: T) => void, reject: (error: Error) => void) => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    let used: Session | undefined;
    const onAbort = (): void => {
      reject(signal.reason);
      used?.kill(new Error('the question was called off'));
    };
    const over = (): void => {
      signal.removeEventListener('abort', onAbort);
      used?.release();
    };
    signal.addEventListener('abort', onAbort, { once: true });
    take((error, session) => {
      if (session === undefined) {
        over();
        reject(error);
      } else if (signal.aborted) session.release();
      else {
        used = session;
        use(
          session,
          (value) => {
            over();
            resolve(value);
          },
          (failure) => {
            over();
            reject(failure);
          },
        );
      }
    });
  });
}

/** Only a function keeps a `typeCast` of the application away from the values. */
const asItIs = (_field: unknown, next: () => unknown): unknown => next();

/** MySQL's ping. */
export function ping(take: Take, signal: AbortSignal): Promise<void> {
  return askOn<void>(take, signal, (session, resolve, reject) => {
    session.connection.ping((error) => (error ? reject(error) : resolve()));
  });
}

/** The rows a server answers to a statement of ours. */
export function rowsOf(take: Take, sql: string, signal: AbortSignal): Promise<readonly Record<string, unknown>[]> {
  return askOn(take, signal, (session, resolve, reject) => {
    session.send('query', { sql, rowsAsArray: false, nestTables: false, typeCast: asItIs }, undefined, (error, rows) =>
      error ? reject(error) : resolve(rows as Record<string, unknown>[]),
    );
  });
}

/** Pings on a session that was taken. `answer` is called once; `late`: there was no response within `timeoutMs`. */
export function pingWithin(
  timeoutMs: number,
  { connection }: Session,
  { clock, endpoint }: { readonly clock: Clock; readonly endpoint: Parameters<typeof endpointAddress>[0] },
  answer: (error: Error | undefined, late: boolean) => void,
): void {
  let isOver = false;
  const end = (error: Error | undefined, late: boolean): void => {
    if (isOver) return;
    isOver = true;
    timer.cancel();
    answer(error, late);
  };
  const expired = (): void => {
    const address = endpointAddress(endpoint);
    const message = `${address} did not answer a ping within ${timeoutMs} ms`;
    end(new EvenkeelError('EVENKEEL_DEADLINE', message, { endpoint: address }), true);
  };
  const timer = deadline(clock, expired, timeoutMs);
  connection.ping((error) => end(error ?? undefined, false));
}
