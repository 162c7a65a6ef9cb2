import { isPerEndpointError } from '../credentials/per-endpoint.js';
import { type Endpoint, withOtherFirst } from '../endpoint/endpoint.js';
import { asError, EvenkeelError } from '../errors.js';
import type { Load } from '../load/load.js';
import { notify, observes, type SubchannelState } from '../observe/observer.js';
import type { Tracker } from '../stage/stage.js';
import { ConnectAttempt } from './connect-attempt.js';
import { DrainLimits, LeaveNotice } from './drain.js';
import { type EndOfConnection, Reconnect } from './reconnect.js';
import { Recycle } from './recycle.js';
import { FinishingConnections } from './retiring.js';
import { SubchannelCalls } from './subchannel-calls.js';
import type { SubchannelOwner } from './subchannel-owner.js';
import type { Connection } from './transport.js';

export type { SubchannelOwner, SubchannelState };

/**
 * What the pool keeps for one endpoint: its connection, state, counters and load.
 *
 * ```
 * idle → connecting ⇄ backoff      any of these → draining → closed
 *   ↑        ⇅                                      ↓ (came back)
 *   └───── ready                                 ready or connecting
 * ```
 * From `open` to `drain`, the subchannel keeps a connection open: a lost one is reopened. `closed` is final.
 *
 * Observers and trackers are called in the middle of a change and may call the balancer, even close it. So the state is consistent before
 * they are called, and the code after such a call checks whether it still applies.
 */
export class Subchannel<C> extends SubchannelCalls<C> {
  /** Whether the endpoint has left the set. Then the subchannel opens no connection, even if it was drained in the middle of a change. */
  #hasLeft = false;
  /** While draining: whether the subchannel closes as soon as no call is running. */
  #closeWhenIdle = false;
  /** The latest data of this endpoint, with the address that is in use in front. The endpoint's key never changes. */
  endpoint: Endpoint;
  /** The error that ended the last connection or attempt to connect; undefined after a success. */
  lastError: Error | undefined;
  /**
   * When the endpoint refused the last attempt to connect, on the clock in ms; -Infinity if it accepted it or did not answer in time, or if
   * a function of the application failed.
   */
  refusedMs: number = Number.NEGATIVE_INFINITY;
  /** Since when no connection could be opened, or kept for long enough to be useful, on the clock in ms; undefined while one is. */
  failingSinceMs: number | undefined;
  readonly #owner: SubchannelOwner<C>;
  /** The latest data of this endpoint from the set, with the address that is dialed first in front. */
  #listed: Endpoint;
  readonly #reconnect: Reconnect;
  readonly #recycle: Recycle;
  readonly #drainLimits: DrainLimits;
  readonly #notice = new LeaveNotice();
  readonly #finishing: FinishingConnections<C>;
  /** How many calls of the subchannel had succeeded when its current connection was opened. */
  #succeededBefore = 0;
  /** When the pause before the next attempt to connect began, on the clock in ms. */
  #pausedMs = Number.NEGATIVE_INFINITY;
  #attempt: ConnectAttempt<C> | undefined;

  constructor(endpoint: Endpoint, owner: SubchannelOwner<C>, load: Load, trackers: readonly Tracker[]) {
    super(owner, load, trackers);
    this.endpoint = endpoint;
    this.#listed = endpoint;
    this.#owner = owner;
    this.#finishing = new FinishingConnections(owner, () => this.inFlight > 0);
    this.#reconnect = new Reconnect(owner, () => this.#connect());
    this.#recycle = new Recycle(owner, () => this.#replace());
    this.#drainLimits = new DrainLimits(
      owner,
      () => {
        this.#closeWhenIdle = true;
        this.#finishIfDone();
      },
      () => this.#finish('cut'),
    );
  }

  /** Aborts when the endpoint leaves the set or is closed. The signal's reason is a `Leaving`. */
  get leaving(): AbortSignal {
    return this.#notice.signal;
  }

  /** Takes new data of the endpoint from the set. A connection stays if its address is still one of the pod's. */
  update(endpoint: Endpoint): void {
    if (endpoint === this.#listed) return;
    const had = this.#listed;
    this.#listed = endpoint;
    const used = this.endpoint.address;
    this.endpoint = used === endpoint.otherAddress ? withOtherFirst(endpoint) : endpoint;
    const { connection, state } = this;
    if (connection !== undefined && this.endpoint.address !== used) {
      // The endpoint no longer has this address. Another pod may get it, so it must not be dialed for this endpoint again.
      this.#finishing.add(connection);
      this.#disconnected('leaving');
    } else if (state === 'backoff' && addressesOf(endpoint).some((address) => !addressesOf(had).includes(address))) {
      this.#stopAttempt();
      this.#connect();
    } else if (state === 'connecting' && this.#isDialingLost) {
      this.#connect();
    }
  }

  /** Whether the attempt that is under way connects to an address that the endpoint no longer has. */
  get #isDialingLost(): boolean {
    return this.#attempt !== undefined && !addressesOf(this.#listed).includes(this.#attempt.address);
  }

  /**
   * For transports whose callers open the network connections: `address` could not be connected to. Puts the endpoint's other address in
   * front, unless that has failed too. Returns whether the address that is in front now should be dialed.
   */
  useOtherAddress(address: string): boolean {
    if (this.state !== 'ready') return false;
    // Another dial that failed may have done this already.
    if (this.endpoint.address !== address) return true;
    if (address !== this.#listed.address || this.#listed.otherAddress === undefined) return false;
    this.endpoint = withOtherFirst(this.#listed);
    return true;
  }

  /** Begins to connect. The pool calls this once. */
  open(): void {
    this.#connect();
  }

  /** A caller waits since `sinceMs`: the pause before the next attempt to connect ends, unless it began later. */
  dialNow(sinceMs: number): void {
    if (this.state !== 'backoff' || this.#pausedMs >= sinceMs) return;
    this.#stopAttempt();
    this.#connect();
  }

  /**
   * The endpoint left the set, so it gets no new calls and running ones finish. With `gone` (the pod is terminating), the subchannel closes
   * as soon as no call is running; otherwise it is kept, with its connection, in case the endpoint returns.
   */
  drain(gone: boolean): void {
    if (gone) this.#closeWhenIdle = true;
    if (this.state !== 'draining') {
      this.#hasLeft = true;
      this.#stopAttempt();
      if (!this.#transition('draining')) return;
      this.#drainLimits.start();
      const { clock, options } = this.#owner;
      this.#notice.give({ endpoint: this.endpoint, untilMs: clock.now() + options.drainTimeoutMs });
    }
    this.#finishIfDone();
  }

  /** Sends calls that wait for a connection to this endpoint to other endpoints, while this one drains. */
  handBack(): void {
    if (this.state !== 'draining') return;
    this.#finishing.left(this.connection);
  }

  /** The endpoint returned to the set before its subchannel was closed. The subchannel goes on with its connection, load and trackers. */
  revive(): void {
    if (this.state !== 'draining') return;
    this.#hasLeft = false;
    this.#closeWhenIdle = false;
    this.#drainLimits.stop();
    this.#notice.withdraw();
    if (this.connection === undefined) this.#connect();
    else {
      this.#finishing.returned(this.connection);
      if (this.#transition('ready')) this.#recycle.resume();
    }
  }

  /** Closes the subchannel immediately; running calls are cut. */
  destroy(): void {
    this.#finish('cut');
  }

  /** Checks whether the server is alive. Rejects if it is not, if there is no connection, or if the transport has no `ping`. */
  async ping(signal: AbortSignal): Promise<void> {
    const connection = this.connection;
    if (connection === undefined) throw this.lastError ?? new Error(`${this.endpoint.key} has no connection`);
    if (connection.ping === undefined) throw new EvenkeelError('EVENKEEL_OPTION', 'this transport has no ping');
    await connection.ping(signal);
    // The answer may come after the endpoint's end, when stages have forgotten it.
    if (this.state === 'closed') return;
    this.tellTrackersAgain();
    this.trackers.probed();
  }

  #connect(): void {
    if (!this.#transition('connecting')) return;
    this.#attemptConnection(
      this.#reconnect.failures,
      (connection, address) => {
        this.lastError = undefined;
        this.refusedMs = Number.NEGATIVE_INFINITY;
        this.failingSinceMs = undefined;
        this.#adopt(connection, address);
        if (this.#transition('ready')) this.connected();
      },
      (error) => {
        const isRefusal = error.cause instanceof Error && !isPerEndpointError(error.cause);
        this.refusedMs = isRefusal ? this.#owner.clock.now() : Number.NEGATIVE_INFINITY;
        this.#lost(error, error);
      },
    );
  }

  #attemptConnection(
    failures: number,
    opened: (connection: Connection<C>, address: string) => void,
    failed: (error: Error) => void,
  ): void {
    const { gate, transport, clock, options } = this.#owner;
    this.#stopAttempt();
    const attempt = new ConnectAttempt({
      transport,
      endpoint: this.#listed,
      timeoutMs: options.connectTimeoutMs,
      clock,
      gate,
      failures,
      opened: (connection, address) => {
        this.#attempt = undefined;
        if (addressesOf(this.#listed).includes(address)) {
          opened(connection, address);
          return;
        }
        this.#owner.retire(connection, 'cut');
        failed(new EvenkeelError('EVENKEEL_CONNECT', `${address} is no longer an address of this endpoint`));
      },
      failed: (error) => {
        this.#attempt = undefined;
        failed(error);
      },
      calledOff: (dial) => this.#owner.calledOff(dial),
      discard: (connection) => this.#owner.retire(connection, 'cut'),
    });
    // The transport may have called the balancer, which drained or closed this subchannel, or made it begin another attempt.
    if (this.#hasLeft || this.state === 'closed' || this.#attempt !== undefined) attempt.callOff();
    else this.#attempt = attempt;
  }

  #stopAttempt(): void {
    this.#attempt?.callOff();
    this.#attempt = undefined;
    this.#reconnect.stop();
    this.#recycle.stop();
  }

  #adopt(connection: Connection<C>, address: string): void {
    this.connection = connection;
    this.endpoint = address === this.#listed.address ? this.#listed : withOtherFirst(this.#listed);
    this.#succeededBefore = this.succeeded;
    this.#reconnect.connected();
    this.#recycle.renew(this.endpoint);
    // A connection's promises should not reject. If one does, that counts as the end of the connection.
    const ended = (error: unknown): void => {
      if (this.connection !== connection) return;
      if (error === undefined) this.#disconnected('closed');
      else this.#disconnected('failed', asError(error));
    };
    const leaving = (): void => {
      if (this.connection !== connection) return;
      this.#finishing.add(connection);
      this.#disconnected('leaving');
    };
    connection.closed.then(ended, ended);
    connection.leaving?.then(leaving, leaving);
    const outdated = (): void => {
      if (this.connection !== connection) return;
      this.#recycle.outdated();
      // A draining subchannel opens no connection. If the endpoint returns, the outdated connection is replaced then.
      if (this.state === 'ready') this.#recycle.resume();
    };
    connection.outdated?.then(outdated, outdated);
  }

  /** The connection takes no more calls, because it closed or because the server wants it to end after its calls have finished. */
  #disconnected(how: EndOfConnection, error?: Error): void {
    this.connection = undefined;
    this.tellTrackersAgain();
    const { livedMs, atOnce } = this.#reconnect.ended(how, this.succeeded > this.#succeededBefore);
    if (this.state === 'draining') {
      this.trackers.disconnected(error);
      this.#finishIfDone();
      return;
    }
    this.#stopAttempt();
    if (atOnce) {
      this.trackers.disconnected(undefined);
      this.#connect();
    } else if (how === 'leaving') this.#pauseIdle();
    else this.#lost(error, error ?? new Error(`it ended the connection after ${Math.round(livedMs)} ms`));
  }

  /** The server ended the connection as soon as it was open. Nothing failed, so the subchannel is `idle` during the pause. */
  #pauseIdle(): void {
    this.#reconnect.failed();
    this.trackers.disconnected(undefined);
    if (!this.#transition('idle')) return;
    this.#reconnect.pause();
    this.#owner.troubled();
  }

  /**
   * The connection, or the attempt to open one, failed. The subchannel pauses and then connects again. `reason` says why in words, even if
   * the connection ended without an error.
   */
  #lost(error: Error | undefined, reason: Error): void {
    // A function of the application failed while connecting. This says nothing about the endpoint, so the pause does not grow.
    const isOurs = isPerEndpointError(reason) || (reason.cause instanceof Error && isPerEndpointError(reason.cause));
    this.lastError = reason;
    this.#pausedMs = this.#owner.clock.now();
    if (!isOurs) {
      this.#reconnect.failed();
      this.failingSinceMs ??= this.#pausedMs;
    }
    this.tellTrackersAgain();
    this.trackers.disconnected(isOurs ? undefined : error);
    if (!this.#transition('backoff', reason)) return;
    this.#reconnect.pause();
    if (!isOurs) this.#owner.troubled();
  }

  /**
   * Replaces the connection, which has reached its maximum age or is outdated. The new connection is opened before the old one is closed.
   */
  #replace(): void {
    this.#attemptConnection(
      1, // a replacement is not urgent: attempts to other endpoints go first
      (connection, address) => {
        const old = this.connection;
        this.#adopt(connection, address);
        if (old !== undefined) this.#finishing.add(old);
      },
      // No replacement could be opened, but the old connection still works, so it stays and is to be replaced later.
      () => this.#recycle.postpone(this.endpoint),
    );
  }

  protected override callEnded(): void {
    this.#finishIfDone();
  }

  protected override capacityGained(): void {
    this.#owner.capacityGained();
  }

  #finishIfDone(): void {
    if (this.#closeWhenIdle && this.inFlight === 0 && this.state === 'draining') this.#finish('finish');
  }

  #finish(how: 'finish' | 'cut'): void {
    if (this.state === 'closed') return;
    this.#stopAttempt();
    this.#drainLimits.stop();
    const connection = this.connection;
    this.connection = undefined;
    this.#transition('closed');
    this.trackers.closed();
    if (connection !== undefined) this.#owner.retire(connection, how);
    if (how === 'cut') this.#finishing.cut();
    this.#notice.give({ endpoint: this.endpoint, untilMs: this.#owner.clock.now() });
    this.#owner.subchannelClosed(this);
  }

  /**
   * Every change of the subchannel's state goes through this method. Returns false if the state is not `to` afterwards, because the
   * subchannel is closed or because an observer changed its state again.
   */
  #transition(to: SubchannelState, error?: Error): boolean {
    const from = this.state;
    const mayBecome = !this.#hasLeft || to === 'draining' || to === 'closed';
    if (from !== to && from !== 'closed' && mayBecome) {
      this.state = to;
      this.tellTrackersAgain();
      if (from === 'ready' || to === 'ready') this.#owner.readinessChanged();
      const { observer } = this.#owner;
      if (observes(observer, 'subchannelChanged')) {
        notify(observer, 'subchannelChanged', { endpoint: this.endpoint, from, to, ...(error && { error }) });
      }
    }
    return this.state === to;
  }
}

function addressesOf({ address, otherAddress }: Endpoint): readonly string[] {
  return otherAddress === undefined ? [address] : [address, otherAddress];
}
