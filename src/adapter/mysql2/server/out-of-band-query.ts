import type { Session } from './session.js';

/** What a question beside the calls needs of a server. */
export interface Lender {
  /** Takes a connection, from the pool or a new one. */
  lend(lent: (error: Error | undefined, session: Session | undefined) => void): void;
}

/** Puts a question to a server on a connection that is no call's; an abort kills the connection. */
function askOn<T>(
  lender: Lender,
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
      used?.release(undefined);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    lender.lend((error, session) => {
      if (session === undefined) {
        over();
        reject(error);
      } else if (signal.aborted) session.release(undefined);
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

/** Anything but a function would leave values to a `typeCast` of the application. */
const asItIs = (_field: unknown, next: () => unknown): unknown => next();

/** MySQL's ping. */
export function pingOn(lender: Lender, signal: AbortSignal): Promise<void> {
  return askOn<void>(lender, signal, (session, resolve, reject) => {
    session.connection.ping((error) => (error ? reject(error) : resolve()));
  });
}

/** The rows a server answers to a statement that is not one of the calls that are counted. */
export function rowsOn(lender: Lender, sql: string, signal: AbortSignal): Promise<readonly Record<string, unknown>[]> {
  return askOn(lender, signal, (session, resolve, reject) => {
    session.send('query', { sql, rowsAsArray: false, nestTables: false, typeCast: asItIs }, undefined, (error, rows) =>
      error ? reject(error) : resolve(rows as Record<string, unknown>[]),
    );
  });
}
