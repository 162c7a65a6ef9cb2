import { type Endpoint, EvenkeelError, endpointAddress } from '../../../index.js';
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
  readonly #endpoint: Endpoint;
  readonly #waits = new Set<Wait>();

  constructor(endpoint: Endpoint) {
    this.#endpoint = endpoint;
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

  /** The server left the Service. */
  sendAllAway(): void {
    const waits = [...this.#waits];
    this.#waits.clear();
    for (const { borrower } of waits) this.sendAway(borrower);
  }

  /** Tells a borrower that the server has left. */
  sendAway(borrower: Borrower): void {
    const endpoint = endpointAddress(this.#endpoint);
    const message = `${endpoint} left the Service before the statement was sent`;
    borrower.notLent(new EvenkeelError('EVENKEEL_CONNECT', message, { endpoint }), 'left');
  }
}
