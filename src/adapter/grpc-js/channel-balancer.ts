import { type Balancer, type BalancerSnapshot, EvenkeelError } from '../../index.js';
import { checkKeys, noCounts, offAbort, onAbort } from '../kit/index.js';
import type { PodConnection } from './pod-connection.js';

/** Inspects and closes the balancing of one channel; `channelOptions({ onBalancer })` provides it. */
export interface ChannelBalancer extends AsyncDisposable {
  /**
   * Resolves once the first set is known, an empty one included; an idle channel starts looking for endpoints.
   * Rejects as `Balancer.ready` does, and with EVENKEEL_CLOSED when the channel is closed.
   */
  ready(options?: { readonly signal?: AbortSignal }): Promise<void>;
  /** The current state. An idle channel has no endpoint and no connection. */
  snapshot(): BalancerSnapshot;
  /**
   * Ends the balancing permanently: new calls fail, running ones finish. Closing the client does the same.
   * Resolves when every call has ended, after `pool.drainTimeoutMs` or when `signal` aborts; calls are never cut.
   */
  close(options?: { readonly signal?: AbortSignal }): Promise<void>;
}

/** The parts of a channel that is not idle. */
export interface RunningPolicy {
  readonly balancer: Balancer<PodConnection>;
  /** The balancer is closed: every call fails. */
  turnAway(): void;
}

/** The channel itself. */
export interface ChannelHandle {
  readonly isClosed: () => boolean;
  /** Starts looking for endpoints, as a first call would; false if that is impossible. */
  readonly wake: () => boolean;
}

/** What `ready` and `close` take. */
const signalOnly = ['signal'] as const;

/** One per channel, including its idle times. */
export class ChannelPresence implements ChannelBalancer {
  /** The Service's name as the user wrote it, for messages. */
  readonly service: string;
  readonly #channel: ChannelHandle;
  #policy: RunningPolicy | undefined;
  #closed = false;
  /** A first set was known before the channel went idle. */
  #wasReady = false;
  /** Why the balancer could not be created. */
  #broken: unknown;
  readonly #waiters = new Set<() => void>();

  constructor(service: string, channel: ChannelHandle) {
    this.service = service;
    this.#channel = channel;
  }

  get closed(): boolean {
    return this.#closed || this.#channel.isClosed();
  }

  /** The channel looks for endpoints from now on. */
  awoke(policy: RunningPolicy): void {
    this.#policy = policy;
    this.#resume();
  }

  /** The channel cannot look for endpoints. */
  broke(error: unknown): void {
    this.#broken = error;
    this.#resume();
  }

  /** The channel went idle or was closed. */
  sleeps(policy: RunningPolicy): void {
    if (this.#policy !== policy) return;
    if (policy.balancer.snapshot().state !== 'starting') this.#wasReady = true;
    this.#policy = undefined;
    this.#resume();
  }

  async ready(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    checkKeys('ready', options, signalOnly);
    const { signal } = options;
    signal?.throwIfAborted();
    if (this.closed) throw this.closedError();
    if (this.#policy === undefined) {
      if (this.#wasReady) return;
      await this.#awake(signal);
    }
    const policy = this.#policy;
    if (policy === undefined) throw this.#broken ?? this.closedError();
    await policy.balancer.ready(options);
  }

  snapshot(): BalancerSnapshot {
    const policy = this.#policy;
    if (policy !== undefined) return policy.balancer.snapshot();
    return {
      resolver: this.service,
      state: this.closed ? 'closed' : 'idle',
      version: 0,
      staleForMs: 0,
      panicking: false,
      waiting: 0,
      retryBudget: 0,
      endpoints: [],
      counts: noCounts,
    };
  }

  async close(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    checkKeys('close', options, signalOnly);
    this.#closed = true;
    this.#policy?.turnAway();
    await this.#policy?.balancer.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  closedError(): EvenkeelError {
    return new EvenkeelError('EVENKEEL_CLOSED', `${this.service}: the channel is closed`);
  }

  #resume(): void {
    for (const resume of this.#waiters) resume();
    this.#waiters.clear();
  }

  #awake(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const resume = (): void => {
        offAbort(signal, aborted);
        resolve();
      };
      const aborted = (): void => {
        this.#waiters.delete(resume);
        reject(signal?.reason);
      };
      onAbort(signal, aborted);
      this.#waiters.add(resume);
      if (!this.#channel.wake()) this.#resume();
    });
  }
}
