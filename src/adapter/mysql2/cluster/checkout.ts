import type { Pool } from 'mysql2';
import type { Lease, Outcome } from '../../../index.js';
import { reportAttempt } from '../../kit/index.js';
import type { SessionHolder } from '../server/session.js';

/** A connection a caller has: its lease lasts until it is given back or gone. */
export class Checkout implements SessionHolder {
  readonly #lease: Lease<Pool>;
  readonly #attempt: number;

  constructor(lease: Lease<Pool>, attempt: number) {
    this.#lease = lease;
    this.#attempt = attempt;
  }

  released(verdict: Outcome): void {
    this.#lease.end(verdict);
    reportAttempt(this.#lease, { attempt: this.#attempt, outcome: verdict });
  }
}
