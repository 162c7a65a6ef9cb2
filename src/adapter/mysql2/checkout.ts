import type { Pool } from 'mysql2';
import type { Lease, Outcome } from '../../index.js';
import { notify, observes } from '../kit/index.js';
import type { Service } from './service.js';
import type { SessionHolder } from './session.js';

/** A connection a caller has: its lease lasts until it is given back or gone. */
export class Checkout implements SessionHolder {
  readonly #service: Service;
  readonly #lease: Lease<Pool>;
  readonly #attempt: number;

  constructor(service: Service, lease: Lease<Pool>, attempt: number) {
    this.#service = service;
    this.#lease = lease;
    this.#attempt = attempt;
  }

  released(verdict: Outcome): void {
    this.#lease.end(verdict);
    reportAttempt(this.#service, this.#lease, { attempt: this.#attempt, outcome: verdict, retrying: false });
  }
}

/** One attempt of a call ended. */
export interface AttemptReport {
  readonly attempt: number;
  readonly outcome: Outcome;
  readonly retrying: boolean;
  readonly error?: Error;
}

/** Tells the observer. */
export function reportAttempt({ balancer }: Service, { endpoint }: Lease<Pool>, report: AttemptReport): void {
  const { observer } = balancer;
  if (observes(observer, 'attemptEnded')) notify(observer, 'attemptEnded', { endpoint, ...report });
}
