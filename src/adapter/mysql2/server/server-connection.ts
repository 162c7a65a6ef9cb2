import type { Pool } from 'mysql2';
import {
  type Clock,
  type Connection,
  type Endpoint,
  EvenkeelError,
  endpointAddress,
  type Rng,
} from '../../../index.js';
import { Closing } from '../../kit/index.js';
import { meaningOf } from '../checks/refusal.js';
import { ConnectionCap } from './connection-cap.js';
import { ping, pingWithin, rowsOf } from './out-of-band-query.js';
import type { Session } from './session.js';
import { SessionPool } from './session-pool.js';
import type { ServerSettings } from './settings.js';
import { type Borrower, type Wait, WaitingBorrowers } from './waiting-borrowers.js';

/** What a `ServerConnection` needs. */
export interface ServerConnectionParts {
  readonly endpoint: Endpoint;
  readonly settings: ServerSettings;
  readonly clock: Clock;
  readonly rng: Rng;
  /** A problem that was dealt with. */
  readonly warn: (error: Error) => void;
  /** A pool was created: for those who want its events. */
  readonly opened: (pool: Pool) => void;
}

/**
 * One server: lends its sessions to calls, and judges by them whether it is gone, leaving, or takes no further connection. Its
 * first connection is opened ahead of the first query, and one is always kept.
 */
export class ServerConnection implements Connection<Pool> {
  readonly handle: Pool;
  readonly closed: Promise<Error | undefined>;
  readonly leaving: Promise<void>;
  readonly #parts: ServerConnectionParts;
  readonly #address: string;
  readonly #pool: SessionPool;
  readonly #cap: ConnectionCap;
  readonly #borrowers: WaitingBorrowers;
  /** The endpoint is not in the Service at the moment. */
  #hasLeft = false;
  readonly #closing = new Closing(
    () => this.#finish(),
    () => this.#cut(),
  );
  #settleClosed!: (error: Error | undefined) => void;
  #settleLeaving!: () => void;

  constructor(parts: ServerConnectionParts) {
    const { endpoint, settings, clock, rng, warn } = parts;
    this.#parts = parts;
    this.#address = endpointAddress(endpoint);
    this.closed = new Promise((resolve) => {
      this.#settleClosed = resolve;
    });
    this.leaving = new Promise((resolve) => {
      this.#settleLeaving = resolve;
    });
    this.#cap = new ConnectionCap(clock, settings.connectionLimit);
    this.#borrowers = new WaitingBorrowers(endpoint);
    this.#pool = new SessionPool({
      endpoint,
      settings,
      clock,
      rng,
      warn,
      opened: (count) => this.#cap.opened(count),
      refused: (cause) => this.#refused(cause),
      emptied: (byApplication, error) => {
        // If the server has a problem after all, opening another connection shows it.
        if (byApplication) this.warm(() => {});
        else this.#gone(error);
      },
    });
    this.handle = this.#pool.handle;
    parts.opened(this.handle);
  }

  get capacity(): number {
    return this.#cap.capacity;
  }

  get sockets(): number {
    return this.#pool.size;
  }

  watchCapacity(changed: () => void): void {
    this.#cap.watch(changed);
  }

  /** Lends a session that is fit for use. */
  borrow(borrower: Borrower): void {
    if (this.#hasLeft && !this.#pool.hasIdle) {
      this.#parts.clock.defer(() => this.#borrowers.sendAway(borrower));
      return;
    }
    let wait: Wait | undefined;
    const isAtHand = this.#pool.take((error, session) => {
      if (wait !== undefined && !this.#borrowers.end(wait)) session?.release();
      else if (session === undefined) {
        borrower.notLent(error as EvenkeelError, this.#cap.isCapped && this.#pool.open > 0 ? 'full' : 'refused');
      } else if (this.#parts.clock.now() - session.idleSinceMs < this.#parts.settings.validateAfterMs) {
        borrower.lent(session);
      } else this.#validate(session, borrower);
    });
    if (!isAtHand) wait = this.#borrowers.add(borrower);
  }

  /** The server left the Service: calls that wait here go to another one at once. */
  left(): void {
    this.#hasLeft = true;
    this.#borrowers.sendAllAway();
  }

  /** The server is back in the Service. */
  returned(): void {
    this.#hasLeft = false;
  }

  /** Opens a connection if there is none. */
  warm(done: (error: EvenkeelError | undefined) => void): void {
    this.#pool.take((error, session) => {
      session?.release();
      done(error);
    });
  }

  /** MySQL's ping, on an idle connection or a new one. */
  ping(signal: AbortSignal): Promise<void> {
    return ping(this.#pool, signal);
  }

  /** The rows the server answers to a statement of ours, which is no call. */
  rowsOf(sql: string, signal: AbortSignal): Promise<readonly Record<string, unknown>[]> {
    return rowsOf(this.#pool, sql, signal);
  }

  close(signal?: AbortSignal): Promise<void> {
    return this.#closing.close(signal);
  }

  /** A connection that was idle for long may be dead without anybody knowing. */
  #validate(session: Session, borrower: Borrower): void {
    if (this.#hasLeft) {
      session.release();
      this.#borrowers.sendAway(borrower);
      return;
    }
    const { validateAfterMs, validateTimeoutMs } = this.#parts.settings;
    const wait = this.#borrowers.add(borrower);
    pingWithin(validateTimeoutMs, session, this.#parts, (error, late) => {
      const stillWaits = this.#borrowers.end(wait);
      if (error === undefined && session.isAlive) {
        if (stillWaits) borrower.lent(session);
        else session.release();
        return;
      }
      session.kill(error ?? new Error('the connection was lost'));
      // A server that does not respond on one idle connection will not respond on the others.
      if (late) this.#pool.killIdle(validateAfterMs);
      if (!stillWaits) return;
      if (late) borrower.notLent(error as EvenkeelError, 'unresponsive');
      else this.borrow(borrower);
    });
  }

  /**
   * No connection could be opened. If none is left, the server is gone. If it is merely full, it is held to those it has for a
   * while. Otherwise it is shutting down (its listener is closed, but it finishes its work), or it hangs.
   */
  #refused(cause: Error | undefined): EvenkeelError {
    const what = `no connection to ${this.#address}: ${cause?.message ?? 'it was lost'}`;
    const error = new EvenkeelError('EVENKEEL_CONNECT', what, { cause, endpoint: this.#address });
    if (this.#closing.hasBegun) return error;
    const meaning = meaningOf(cause);
    if (this.#pool.size === 0 && (meaning !== 'full' || this.#pool.open === 0)) {
      // Those being opened now would hardly do better, and callers with nowhere else to go would open more forever.
      this.#gone(error);
      return error;
    }
    const { clock, settings, warn } = this.#parts;
    const stillAnswers = clock.now() - this.#pool.heardAtMs < settings.connectTimeoutMs;
    if (meaning === 'full' || (meaning === 'silent' && stillAnswers)) {
      this.#cap.refused(this.#pool.size);
      warn(error);
    } else if (meaning !== 'unknown') this.#settleLeaving();
    return error;
  }

  /** All connections are closed. */
  #gone(error: Error | undefined): void {
    this.#settleClosed(error);
    void this.close();
  }

  async #finish(): Promise<void> {
    this.#cap.close();
    await this.#pool.close();
    this.#settleClosed(undefined);
  }

  #cut(): void {
    const endpoint = this.#address;
    this.#pool.killAll(
      () => new EvenkeelError('EVENKEEL_CLOSED', `the connection to ${endpoint} was cut`, { endpoint }),
    );
  }
}
