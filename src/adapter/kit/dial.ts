import type { Balancer } from '../../balancer/balancer.js';
import type { AttemptedCall } from '../../call/attempted-call.js';
import { reportAttempt } from '../../call/attempted-call.js';
import { Attempts } from '../../call/attempts.js';
import { callLease, type Lease } from '../../call/lease.js';
import { type Endpoint, endpointAddress } from '../../endpoint/endpoint.js';
import { type Outcome, outcomes } from '../../endpoint/outcome.js';
import { outcomeOfSystemError } from '../../endpoint/system-errors.js';
import { asError, EvenkeelError } from '../../errors.js';
import type { CallFacts } from '../../observe/traces.js';
import type { PlacedConnection } from '../../placement/placement-group.js';
import type { Placements } from '../../placement/placements.js';
import type { ConnectionLeaving } from '../../placement/placing-options.js';
import { isSameAtOtherAddress } from '../../pool/lasting-error.js';
import { offAbort, onAbort } from '../../runtime/abort-listeners.js';
import type { Clock, Timer } from '../../runtime/clock.js';
import { deadline } from '../../runtime/deadline.js';
import { OpenConnection } from './connection.js';

/** The handle of a lease that only chooses an endpoint. No socket is open for the handle itself: `Dial` opens one for each lease. */
export class ChosenEndpoint {
  /** The connection of the endpoint's subchannel. It counts as open until a dial to the endpoint fails. */
  readonly connection: OpenConnection<ChosenEndpoint>;

  constructor() {
    const ended = (): void => this.connection.ended();
    this.connection = new OpenConnection<ChosenEndpoint>({ handle: this, finish: ended, cut: ended });
  }
}

/** The settings that all dials of one client share. */
export interface DialSettings {
  readonly placements: Placements;
  readonly clock: Clock;
  readonly connectTimeoutMs: number;
  /** How long the opening of one connection may wait for endpoints, over all its attempts, in ms. */
  readonly waitTimeoutMs: number;
}

/** An open connection, as an adapter passes it to `Dial.opened`: how it is told to leave, how it finishes, and how it is destroyed. */
export interface DialledConnection extends Omit<PlacedConnection, 'cut'> {
  /**
   * Destroys the connection at once, whatever still runs on it. @defaultValue the dial's `signal` aborts, and the adapter has to react to
   * that
   */
  readonly cut?: (() => void) | undefined;
}

/** A connection that has been open for this many ms has shown that its endpoint accepts work. */
const WORKS_AFTER_MS = 1_000;

/**
 * One dial to the endpoint of a lease, and the connection it opens. The adapter hands `signal` to whatever connects, and reports what
 * happens. Reports that do not fit the state do nothing.
 *
 * | state | report | then |
 * |---|---|---|
 * | connecting | `opened` | open: the lease lasts as long as the connection, which `Placements` may ask to leave |
 * | connecting | `failed` | over: the endpoint is suspect, unless it has another address |
 * | connecting | `refused` | over: the reason says nothing about the endpoint |
 * | connecting | `stopped` | over, but for the lease, which the caller ends |
 * | open | `ended` | over: the lease ends |
 */
export class Dial implements PlacedConnection {
  /** The lease for which this dial was made. It ends with the dial if that fails, else with the connection. */
  readonly lease: Lease<ChosenEndpoint>;
  /** The endpoint of the lease, with the address in front that is dialed. */
  readonly endpoint: Endpoint;
  readonly #settings: DialSettings;
  /** Which attempt to connect this is, counted from 1, for the observer. */
  readonly #attempt: number;
  /** What limits the dial. Set only while the dial runs, because the open connection may live for hours. */
  #dialing: Dialing | undefined;
  #limit: AbortController | undefined;
  #held: DialledConnection | undefined;
  #release: (() => void) | undefined;
  #tookMs = 0;
  /** Runs until the connection has been open for long enough to show that its endpoint accepts work. */
  #confirmTimer: Timer | undefined;
  #isOurs = false;

  constructor(lease: Lease<ChosenEndpoint>, settings: DialSettings, callers?: AbortSignal, attempt = 1) {
    this.lease = lease;
    this.endpoint = lease.endpoint;
    this.#settings = settings;
    this.#attempt = attempt;
    this.#limit = new AbortController();
    this.#dialing = new Dialing(this.#limit, lease.leaving, settings, callers);
  }

  /** Aborts when the dial must end. For an open connection without `cut`, it also aborts when that connection must be destroyed. */
  get signal(): AbortSignal {
    this.#limit ??= new AbortController();
    return this.#limit.signal;
  }

  /** Whether the dial is still running: neither opened, failed nor stopped. */
  get isConnecting(): boolean {
    return this.#dialing !== undefined;
  }

  /**
   * Reports that the connection is open. The connection holds the lease until `ended` is called. Does nothing if the dial was already over.
   */
  opened(connection: DialledConnection): void {
    if (!this.#settle()) return;
    this.#held = connection;
    if (connection.cut !== undefined) this.#limit = undefined;
    // From now on the lease lasts as long as the connection, and its duration must not count as the endpoint's latency.
    this.lease.progressed();
    this.#tookMs = this.#settings.clock.now() - this.lease.startedMs;
    this.#confirmTimer = this.#settings.clock.timer(() => {
      this.#confirmTimer = undefined;
      this.lease.confirm();
    }, WORKS_AFTER_MS);
    this.#release = this.#settings.placements.hold(this.lease, this);
  }

  /**
   * Asks the connection to leave. Returns whether somebody listens. `Placements` calls this method, and `finish`, `cut` and `movesItself`.
   */
  leave(leaving: ConnectionLeaving): boolean {
    return this.#held?.leave(leaving) === true;
  }

  /** Closes the connection with its protocol's own goodbye. */
  finish(): void {
    this.#isOurs = true;
    this.#held?.finish();
  }

  /** Destroys the connection, or aborts the dial while there is no connection. */
  cut(): void {
    this.#isOurs = true;
    const held = this.#held;
    if (held?.cut === undefined) this.#limit?.abort();
    else held.cut();
  }

  /** Whether the connection dials another endpoint by itself when it leaves. */
  get movesItself(): boolean {
    return this.#held?.movesItself === true;
  }

  /** The connection has ended. @param outcome What the end says about the endpoint, if `error` alone does not show it. */
  ended(error?: Error, outcome?: Outcome): void {
    if (this.#release === undefined) return;
    this.#confirmTimer?.cancel();
    this.#release();
    this.#release = undefined;
    const shown = outcome ?? (error === undefined ? outcomes.success : lost(error));
    this.lease.end(this.#isOurs ? outcomes.success : shown, this.#tookMs);
    this.#report(error);
  }

  /** Whether the connection has been open for too short a time to show that its endpoint accepts work. */
  get isUnproven(): boolean {
    return this.#confirmTimer !== undefined;
  }

  /**
   * The dial failed to open a connection. Its endpoint is not picked until a later attempt to connect succeeds, unless the endpoint has
   * another address that was not tried.
   */
  failed(cause: unknown): void {
    if (!this.stopped()) return;
    const error = this.describe(cause);
    const isUntried = this.turnToOther(cause);
    if (!isUntried) this.suspect(error);
    this.lease.end(isUntried ? outcomes.notStarted : outcomes.notConnected);
    this.#report(error);
  }

  /** Makes the next dial to the endpoint go to its other address. Returns false if it has none, or if `cause` would come there too. */
  turnToOther(cause: unknown): boolean {
    if (isSameAtOtherAddress(cause) || this.lease.leaving.aborted) return false;
    return callLease(this.lease).subchannel.useOtherAddress(this.endpoint.address);
  }

  /** The dial opened no connection, for a reason that says nothing about its endpoint. */
  refused(error: unknown): void {
    if (!this.stopped()) return;
    this.lease.end(outcomes.cancelled);
    this.#report(error);
  }

  /** Ends the dial but not its lease. Returns false if the dial was already over. */
  stopped(): boolean {
    return this.#settle();
  }

  /** No connection to the endpoint could be opened: the endpoint is not picked until a later attempt to connect succeeds. */
  suspect(error: unknown): void {
    if (!this.lease.leaving.aborted) this.lease.handle.connection.ended(asError(error));
  }

  /**
   * Creates the error that callers see when this dial fails. It names the endpoint, and the reason if the dial was aborted.
   *
   * @param before The part of the message about the endpoint's other address, if that was dialed first.
   */
  describe(error: unknown, before = ''): EvenkeelError {
    const address = endpointAddress(this.endpoint);
    const cause = this.signal.aborted ? this.signal.reason : error;
    const message = `${before}no connection to ${address}: ${asError(cause).message}`;
    return new EvenkeelError('EVENKEEL_CONNECT', message, { cause, endpoint: address });
  }

  #report(error: unknown): void {
    reportAttempt(callLease(this.lease), { attempt: this.#attempt, error });
  }

  #settle(): boolean {
    if (this.#dialing === undefined) return false;
    this.#dialing.over();
    this.#dialing = undefined;
    return true;
  }
}

/** The limits of a running dial: it is aborted when it takes too long, when its caller gives up, and when its endpoint leaves the set. */
class Dialing {
  readonly #timer: Timer;
  readonly #callers: AbortSignal | undefined;
  readonly #leaving: AbortSignal;
  readonly #callerAborted: () => void;
  readonly #left: () => void;

  constructor(limit: AbortController, leaving: AbortSignal, settings: DialSettings, callers: AbortSignal | undefined) {
    const { clock, connectTimeoutMs } = settings;
    this.#callers = callers;
    this.#leaving = leaving;
    this.#callerAborted = () => limit.abort(callers?.reason);
    this.#left = () => limit.abort(new Error('it left while it was connected to'));
    const late = (): void => limit.abort(new Error(`it did not accept within ${connectTimeoutMs} ms`));
    this.#timer = deadline(clock, late, connectTimeoutMs);
    this.#timer.ref();
    onAbort(callers, this.#callerAborted);
    // The endpoint may have left since it was picked.
    if (leaving.aborted) this.#left();
    else onAbort(leaving, this.#left);
  }

  over(): void {
    this.#timer.cancel();
    offAbort(this.#callers, this.#callerAborted);
    offAbort(this.#leaving, this.#left);
  }
}

/**
 * The outcome of a connection that ended with `error`. An error that is no system error comes from the connection's user and says nothing
 * about the endpoint.
 */
function lost(error: Error): Outcome {
  return outcomeOfSystemError((error as NodeJS.ErrnoException).code) ?? outcomes.cancelled;
}

/** How an adapter opens connections of one kind. */
export interface Opening<T> {
  /** Dials the endpoint of `dial`, until `dial.signal` aborts. */
  open(dial: Dial): Promise<T>;
  /**
   * Takes over the open connection. Returns how the connection can be made to leave, and calls `dial.ended` when it has ended. May throw, if
   * the connection is not what the adapter needs; then `dial.signal` aborts, and no other endpoint is tried.
   */
  opened(connection: T, dial: Dial): DialledConnection;
  /** Whether `error`, with which `open` failed, would come from every endpoint, so that no other endpoint is tried. @defaultValue never */
  isFinal?(error: unknown): boolean;
}

interface ConnectParts<T> {
  readonly balancer: Balancer<ChosenEndpoint>;
  /** The Service as `host:port`, for error messages and observers. */
  readonly service: string;
  readonly settings: DialSettings;
  readonly opening: Opening<T>;
  readonly key: string | undefined;
  readonly signal: AbortSignal | undefined;
}

/** Opens a connection to one of the Service's endpoints. Rejects as `balancer.acquire` does, or with the reason of the signal. */
export function connectThrough<T>(parts: ConnectParts<T>): Promise<T> {
  return new Promise((resolve, reject) => new Connect(parts, resolve, reject).begin());
}

/** The opening of one connection, which may try several endpoints. */
class Connect<T> implements AttemptedCall<ChosenEndpoint> {
  readonly signal: AbortSignal | undefined;
  readonly #parts: ConnectParts<T>;
  readonly #attempts: Attempts<ChosenEndpoint>;
  readonly #resolve: (connection: T) => void;
  readonly #reject: (error: unknown) => void;
  readonly #beganMs: number;

  constructor(parts: ConnectParts<T>, resolve: (connection: T) => void, reject: (error: unknown) => void) {
    this.#parts = parts;
    this.signal = parts.signal;
    this.#attempts = new Attempts(parts.balancer, this, parts.key);
    this.#beganMs = parts.settings.clock.now();
    this.#resolve = resolve;
    this.#reject = reject;
  }

  get waitLimitMs(): number {
    return this.#parts.settings.waitTimeoutMs;
  }

  /**
   * How long this opening may still wait for endpoints, in ms. The time counts from the first attempt: an endpoint that accepts connections
   * and then stays silent becomes ready again after each attempt, so a wait that began anew each time would never end.
   */
  get waitTimeoutMs(): number {
    const { clock, waitTimeoutMs } = this.#parts.settings;
    return Math.max(0, this.#beganMs + waitTimeoutMs - clock.now());
  }

  /** Whether the time for this opening is over and every endpoint was tried once. */
  get #isOver(): boolean {
    return this.waitTimeoutMs === 0 && this.#attempts.number >= this.#parts.balancer.snapshot().endpoints.length;
  }

  #late(cause: EvenkeelError): EvenkeelError {
    const { service, settings } = this.#parts;
    const message = `${service}: no endpoint could be connected to within ${settings.waitTimeoutMs} ms (${cause.message})`;
    return new EvenkeelError('EVENKEEL_NOT_READY', message, { cause });
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

  send(lease: Lease<ChosenEndpoint>): void {
    void this.#dial(lease);
  }

  /** @param before The part of the error message about the endpoint's first address, which could not be connected to. */
  async #dial(lease: Lease<ChosenEndpoint>, before = ''): Promise<void> {
    const attempts = this.#attempts;
    const { opening, settings } = this.#parts;
    const dial = new Dial(lease, settings, this.signal, attempts.number);
    let isOpen = false;
    try {
      const connection = await opening.open(dial);
      isOpen = true;
      // This may throw, so the lease becomes the connection's only afterwards.
      const held = opening.opened(connection, dial);
      attempts.conclude(outcomes.success);
      dial.opened(held);
      this.#resolve(connection);
    } catch (error) {
      dial.stopped();
      if (isOpen) dial.cut();
      if (isOpen || this.signal?.aborted || opening.isFinal?.(error)) {
        const reason = this.signal?.aborted ? this.signal.reason : error;
        attempts.stop(undefined, reason);
        attempts.end(outcomes.cancelled, { error });
        this.fail(reason);
        return;
      }
      const described = dial.describe(error, before);
      if (before === '' && dial.turnToOther(error)) {
        void this.#dial(lease, `${described.message}; `);
        return;
      }
      dial.suspect(described);
      const failed = { outcome: outcomes.notConnected, idempotent: false, answered: false };
      if (this.#isOver) attempts.fail({ ...failed, resend: 'never', error: this.#late(described) });
      // Nothing was sent, so trying the next pod costs no retry. The pod that failed is not used until it can be connected to.
      else attempts.fail({ ...failed, resend: 'free', error: described });
    }
  }
}
