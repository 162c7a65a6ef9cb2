import type { EvenkeelError } from '../../../index.js';
import type { Session } from './session.js';

/** The caller that asked for a session: exactly one method is called, never before `borrow` has returned. */
export interface Borrower {
  lent(session: Session): void;
  /** It takes a while: a handshake or a ping. May be called again. */
  waits(): void;
  /** Nothing was sent. */
  notLent(error: EvenkeelError, why: NotLent): void;
}

/**
 * `full`: the server gives no further connection but works on those it gave. `unresponsive`: it does not answer. `left`: it is no
 * longer in the Service, and no connection was ready.
 */
export type NotLent = 'refused' | 'full' | 'unresponsive' | 'left';
