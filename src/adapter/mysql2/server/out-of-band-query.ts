/** Questions of our own to a server, beside the calls that are balanced and counted. */
import { type Clock, EvenkeelError, endpointAddress } from '../../../index.js';
import type { Session } from './session.js';
import type { SessionPool } from './session-pool.js';

/** Uses a session of the pool for one question; an abort ends that session. */
function askOn<T>(
  pool: SessionPool,
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
    pool.take((error, session) => {
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
export function ping(pool: SessionPool, signal: AbortSignal): Promise<void> {
  return askOn<void>(pool, signal, (session, resolve, reject) => {
    session.connection.ping((error) => (error ? reject(error) : resolve()));
  });
}

/** The rows a server answers to a statement of ours. */
export function rowsOf(
  pool: SessionPool,
  sql: string,
  signal: AbortSignal,
): Promise<readonly Record<string, unknown>[]> {
  return askOn(pool, signal, (session, resolve, reject) => {
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
  const timer = clock.timer(() => {
    const address = endpointAddress(endpoint);
    const message = `${address} did not answer a ping within ${timeoutMs} ms`;
    end(new EvenkeelError('EVENKEEL_DEADLINE', message, { endpoint: address }), true);
  }, timeoutMs);
  connection.ping((error) => end(error ?? undefined, false));
}
