import type { Session } from './session.js';

/** What a question beside the calls needs of a server. */
export interface Lender {
  /** Takes a connection, from the pool or a new one. */
  lend(lent: (error: Error | undefined, session: Session | undefined) => void): void;
}

/** Puts a question to a server on a connection that is no call's; an abort kills the connection. */
export function askOn<T>(
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
