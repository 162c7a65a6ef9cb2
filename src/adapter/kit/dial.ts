import type { AttemptedCall } from '../../balancer/attempted-call.js';
import { reportAttempt } from '../../balancer/attempted-call.js';
import { Attempts } from '../../balancer/attempts.js';
import type { Balancer } from '../../balancer/balancer.js';
import type { Lease } from '../../balancer/lease.js';
import type { PlacedConnection } from '../../balancer/placement-group.js';
import type { Placements } from '../../balancer/placements.js';
import { endpointAddress } from '../../endpoint/endpoint.js';
import { type Outcome, outcomes } from '../../endpoint/outcome.js';
import { outcomeOfSystemError } from '../../endpoint/system-errors.js';
import { asError, EvenkeelError } from '../../errors.js';
import type { CallFacts } from '../../observe/traces.js';
import { offAbort, onAbort } from '../../runtime/abort-listeners.js';
import type { Clock, Timer } from '../../runtime/clock.js';
import { deadline } from '../../runtime/deadline.js';
import { OpenConnection } from './connection.js';

/** The handle of a lease that only chooses an endpoint. Nothing is open because of it; it ends when a dial fails. */
export class Site {
  readonly connection: OpenConnection<Site>;

  constructor() {
    const ended = (): void => this.connection.ended();
    this.connection = new OpenConnection<Site>({ handle: this, finish: ended, cut: ended });
  }
}

/** What dials share. */
export interface DialSettings {
  readonly placements: Placements;
  readonly clock: Clock;
  readonly connectTimeoutMs: number;
}

/** How an open connection leaves. */
export interface DialledConnection extends Omit<PlacedConnection, 'cut'> {
  /** Destroys it. @defaultValue the signal of the dial aborts */
  readonly cut?: (() => void) | undefined;
}

/** After being open for this long, a connection proves that its endpoint works, in ms. */
const WORKS_AFTER_MS = 1_000;

/** Tells the observer that the connection has ended. */
type Report = (error: unknown) => void;

/**
 * One dial to the endpoint of a lease, and the connection it opens. The dialing code passes `signal` on and reports the result:
 * `opened` and later `ended`, or `failed`. Calls in any other order do nothing.
 */
export class Dial {
  readonly lease: Lease<Site>;
  readonly #settings: DialSettings;
  readonly #limit = new AbortController();
  readonly #timer: Timer;
  readonly #callers: AbortSignal | undefined;
  readonly #report: Report;
  #isConnecting = true;
  #release: (() => void) | undefined;
  #tookMs = 0;
  /** Runs until the connection proves that the endpoint works. */
  #works: Timer | undefined;
  #isOurs = false;
  readonly #given = (): void => this.#limit.abort(this.#callers?.reason);
  readonly #left = (): void => this.#limit.abort(new Error('it left while it was connected to'));

  constructor(lease: Lease<Site>, settings: DialSettings, callers?: AbortSignal, report?: Report) {
    this.lease = lease;
    this.#settings = settings;
    this.#callers = callers;
    this.#report = report ?? ((error) => reportAttempt(lease, { attempt: 1, error }));
    const { clock, connectTimeoutMs } = settings;
    const late = new Error(`it did not accept within ${connectTimeoutMs} ms`);
    this.#timer = deadline(clock, () => this.#limit.abort(late), connectTimeoutMs);
    this.#timer.ref();
    onAbort(callers, this.#given);
    onAbort(lease.leaving, this.#left);
  }

  /** Aborts when the dial, or the open connection, has to end. */
  get signal(): AbortSignal {
    return this.#limit.signal;
  }

  /** Whether no result has been reported yet. */
  get isConnecting(): boolean {
    return this.#isConnecting;
  }

  /** It is open. */
  opened({ leave, finish, cut = () => this.#limit.abort(), movesItself }: DialledConnection): void {
    if (!this.#settle()) return;
    // From now on its duration says nothing about the endpoint.
    this.lease.progressed();
    this.#tookMs = this.#settings.clock.now() - this.lease.startedMs;
    this.#works = this.#settings.clock.timer(() => {
      this.#works = undefined;
      this.lease.works();
    }, WORKS_AFTER_MS);
    this.#release = this.#settings.placements.hold(this.lease, {
      leave,
      finish: () => {
        this.#isOurs = true;
        finish();
      },
      cut: () => {
        this.#isOurs = true;
        cut();
      },
      ...(movesItself && { movesItself }),
    });
  }

  /** The connection has ended. @param outcome What that says about the endpoint, if more than the error shows. */
  ended(error?: Error, outcome?: Outcome): void {
    if (this.#release === undefined) return;
    this.#works?.cancel();
    this.#release();
    this.#release = undefined;
    const shown = outcome ?? (error === undefined ? outcomes.success : lost(error));
    this.lease.end(this.#isOurs ? outcomes.success : shown, this.#tookMs);
    this.#report(error);
  }

  /** Whether the connection is too young to prove anything. */
  get isUnproven(): boolean {
    return this.#works !== undefined;
  }

  /** No connection was opened. The endpoint is not used until it can be connected to. */
  failed(error: unknown): void {
    if (!this.stopped()) return;
    this.suspect(error);
    this.lease.end(outcomes.notConnected);
    this.#report(error);
  }

  /** No connection was opened, and that says nothing about the endpoint. */
  refused(error: unknown): void {
    if (!this.stopped()) return;
    this.lease.end(outcomes.cancelled);
    this.#report(error);
  }

  /** Dialing has ended; the lease has not. False if that was known. */
  stopped(): boolean {
    return this.#settle();
  }

  suspect(error: unknown): void {
    if (!this.lease.leaving.aborted) this.lease.handle.connection.ended(asError(error));
  }

  /** The error of the dial, for messages: with the endpoint, and the reason if it was canceled. */
  describe(error: unknown): EvenkeelError {
    const address = endpointAddress(this.lease.endpoint);
    const cause = this.signal.aborted ? this.signal.reason : error;
    const message = `no connection to ${address}: ${asError(cause).message}`;
    return new EvenkeelError('EVENKEEL_CONNECT', message, { cause, endpoint: address });
  }

  #settle(): boolean {
    if (!this.#isConnecting) return false;
    this.#isConnecting = false;
    this.#timer.cancel();
    offAbort(this.#callers, this.#given);
    offAbort(this.lease.leaving, this.#left);
    return true;
  }
}

/** An end caused by its user says nothing about the endpoint. */
function lost(error: Error): Outcome {
  return outcomeOfSystemError((error as NodeJS.ErrnoException).code) ?? outcomes.cancelled;
}

/** How connections of one kind are opened. */
export interface Opening<T> {
  /** Dials, until `dial.signal` aborts. */
  open(dial: Dial): Promise<T>;
  /** It is open: returns how it leaves, and calls `dial.ended` later. */
  opened(connection: T, dial: Dial): DialledConnection;
  /** Whether `open` failed for a reason all endpoints share, so that no other is tried. @defaultValue never */
  isFinal?(error: unknown): boolean;
}

interface ConnectParts<T> {
  readonly balancer: Balancer<Site>;
  /** `host:port` of the Service. */
  readonly service: string;
  readonly settings: DialSettings;
  readonly opening: Opening<T>;
  readonly key: string | undefined;
  readonly signal: AbortSignal | undefined;
}

/** Opens a connection on one of the endpoints. Rejects as `balancer.acquire` does, or with the reason of the signal. */
export function connectThrough<T>(parts: ConnectParts<T>): Promise<T> {
  return new Promise((resolve, reject) => new Connect(parts, resolve, reject).begin());
}

/** One connection, across the endpoints it tries. */
class Connect<T> implements AttemptedCall<Site> {
  readonly signal: AbortSignal | undefined;
  readonly #parts: ConnectParts<T>;
  readonly #attempts: Attempts<Site>;
  readonly #resolve: (connection: T) => void;
  readonly #reject: (error: unknown) => void;

  constructor(parts: ConnectParts<T>, resolve: (connection: T) => void, reject: (error: unknown) => void) {
    this.#parts = parts;
    this.signal = parts.signal;
    this.#attempts = new Attempts(parts.balancer, this, parts.key);
    this.#resolve = resolve;
    this.#reject = reject;
  }

  begin(): void {
    if (this.signal?.aborted) this.fail(this.signal.reason);
    else if (!this.#attempts.begin()) this.#attempts.wait();
  }

  fail(error: unknown): void {
    this.#reject(error);
  }

  facts(): CallFacts {
    return { protocol: 'tcp', method: 'connect', service: this.#parts.service };
  }

  send(lease: Lease<Site>): void {
    void this.#dial(lease);
  }

  async #dial(lease: Lease<Site>): Promise<void> {
    const attempts = this.#attempts;
    const { opening, settings } = this.#parts;
    const report = (error: unknown): void => attempts.report(lease, { ...(error !== undefined && { error }) });
    const dial = new Dial(lease, settings, this.signal, report);
    try {
      const connection = await opening.open(dial);
      attempts.conclude(outcomes.success);
      dial.opened(opening.opened(connection, dial));
      this.#resolve(connection);
    } catch (error) {
      dial.stopped();
      if (this.signal?.aborted || opening.isFinal?.(error)) {
        const told = this.signal?.aborted ? this.signal.reason : error;
        attempts.stop(undefined, told);
        attempts.end(outcomes.cancelled, { error });
        this.fail(told);
        return;
      }
      const described = dial.describe(error);
      dial.suspect(described);
      // Nothing was sent: another pod is as good, at no cost. This one is not used until it can be connected to.
      const failed = { outcome: outcomes.notConnected, error: described, idempotent: false, answered: false };
      attempts.fail({ ...failed, untried: true });
    }
  }
}
