import { type Connection, type Endpoint, EvenkeelError, type Timer } from '../../index.js';
import { jittered, ReportAsking } from '../kit/index.js';
import { Leaf, type LeafContext } from './leaf.js';
import type { ResolvedGrpcOptions } from './options.js';
import { checkHealth } from './server-reports.js';

/** What the pods of a channel share. */
export interface PodContext extends LeafContext {
  readonly options: ResolvedGrpcOptions;
  /** A ready pod got another connection: it can take more calls. */
  grew(): void;
}

/** A connection that was open for longer than this is reopened immediately when lost: its server has a maximum age. In ms. */
const USEFUL_LIFE_MS = 50;
/** Pauses before another of several connections to a working pod is reopened, in ms. */
const REOPEN_INITIAL_MS = 1_000;
const REOPEN_MAX_MS = 30_000;
const REOPEN_JITTER_RATIO = 0.2;
/** Every so often, connections beyond `connections.min` are closed that had no call since the last time. In ms. */
const SHRINK_INTERVAL_MS = 300_000;

/**
 * One pod for a channel: its connections, one unless `connections` says more. The first is opened immediately, the others up to
 * `connections.min` when it is ready. When all have as many calls as they may, another is opened, up to `connections.max`
 * (source: gRFC A105).
 */
export class PodConnection implements Connection<PodConnection> {
  /** Settles when the first connection is ready, or rejects when it cannot be opened. */
  readonly opened: Promise<PodConnection>;
  readonly leaving: Promise<void>;
  readonly closed: Promise<undefined>;
  /** Which calls ask the server for a load report. */
  readonly reportAsking: ReportAsking = new ReportAsking();
  readonly #endpoint: Endpoint;
  readonly #context: PodContext;
  /** Connections that can carry calls. Those beyond `connections.min` are at its end. */
  readonly #ready: Leaf[] = [];
  /** Connections being opened. */
  readonly #opening = new Set<Leaf>();
  /** Calls running on any connection, including those that were given up. */
  #streams = 0;
  #wasReady = false;
  #reopenTimer: Timer | undefined;
  #reopenMs = REOPEN_INITIAL_MS;
  /** Runs while there are more connections than `connections.min`. */
  #shrinkTimer: Timer | undefined;
  #capacityChanged: (() => void) | undefined;
  #released = false;
  #closing = false;
  #settleOpened!: () => void;
  #rejectOpened!: (error: Error) => void;
  #settleLeaving!: () => void;
  #settleClosed!: () => void;

  constructor(endpoint: Endpoint, context: PodContext) {
    this.#endpoint = endpoint;
    this.#context = context;
    this.opened = new Promise((resolve, reject) => {
      this.#settleOpened = () => resolve(this);
      this.#rejectOpened = reject;
    });
    this.leaving = new Promise((resolve) => {
      this.#settleLeaving = resolve;
    });
    this.closed = new Promise((resolve) => {
      this.#settleClosed = () => resolve(undefined);
    });
    this.#openOne();
  }

  get handle(): PodConnection {
    return this;
  }

  get capacity(): number {
    return this.#ready.length === 0 ? 0 : this.#ready.length * this.#context.options.maxConcurrentStreams;
  }

  get sockets(): number {
    return this.#ready.length;
  }

  watchCapacity(changed: () => void): void {
    this.#capacityChanged = changed;
  }

  /**
   * The connection for the next call: of the first `connections.min` the one with the fewest calls, and if they are full, the first of the
   * others that is not. So the last ones have no calls when fewer are needed. Undefined between losing the last one and the pool noticing.
   */
  next(): Leaf | undefined {
    const ready = this.#ready;
    const { connections, maxConcurrentStreams } = this.#context.options;
    let best = ready[0];
    for (let index = 1; index < ready.length; index++) {
      if (index >= connections.min && (best as Leaf).streams < maxConcurrentStreams) break;
      const leaf = ready[index] as Leaf;
      if (leaf.streams < (best as Leaf).streams) best = leaf;
    }
    return best;
  }

  callStarted(leaf: Leaf): void {
    leaf.streams++;
    leaf.wasUsed = true;
    this.#streams++;
    if (this.#streams >= this.capacity) this.#grow();
  }

  callEnded(leaf: Leaf): void {
    leaf.streams--;
    this.#streams--;
    if (this.#streams === 0 && this.#closing) this.#settleClosed();
  }

  /** Checks grpc.health.v1 over a connection that calls use. */
  async ping(signal: AbortSignal): Promise<void> {
    const leaf = this.next();
    if (leaf === undefined) throw new Error('the connection was just lost');
    await checkHealth(leaf, this.#context.options.healthService, signal);
  }

  /** Gives its connections up. Running calls finish; only their servers and deadlines can cut them. */
  async close(signal?: AbortSignal): Promise<void> {
    this.release('it is closed');
    if (this.#streams === 0 || signal?.aborted === true) this.#settleClosed();
    this.#closing = true;
    signal?.addEventListener('abort', this.#settleClosed, { once: true });
    await this.closed;
    signal?.removeEventListener('abort', this.#settleClosed);
  }

  /** Releases every connection immediately. */
  release(reason: string): void {
    if (this.#released) return;
    this.#released = true;
    this.#reopenTimer?.cancel();
    this.#shrinkTimer?.cancel();
    for (const leaf of this.#opening) leaf.release();
    for (const leaf of this.#ready) leaf.release();
    this.#opening.clear();
    this.#ready.length = 0;
    this.#capacityChanged?.();
    if (!this.#wasReady) this.#neverOpened(new EvenkeelError('EVENKEEL_CONNECT', reason));
  }

  #neverOpened(error: Error): void {
    this.#rejectOpened(error);
    this.#settleClosed();
  }

  #openOne(): void {
    const leaf: Leaf = new Leaf(this.#endpoint, this.#context, {
      ready: () => this.#leafReady(leaf),
      lost: (error) => this.#leafLost(leaf, error),
    });
    this.#opening.add(leaf);
  }

  #leafReady(leaf: Leaf): void {
    this.#opening.delete(leaf);
    this.#ready.push(leaf);
    leaf.readyAtMs = this.#context.options.clock.now();
    this.#capacityChanged?.();
    this.#reopenMs = REOPEN_INITIAL_MS;
    if (this.#ready.length > this.#context.options.connections.min) this.#shrinkLater();
    if (this.#wasReady) {
      this.#context.grew();
      return;
    }
    this.#wasReady = true;
    this.#settleOpened();
    this.#openMissing();
  }

  #leafLost(leaf: Leaf, error: Error | undefined): void {
    this.#opening.delete(leaf);
    const index = this.#ready.indexOf(leaf);
    if (index >= 0) {
      this.#ready.splice(index, 1);
      this.#capacityChanged?.();
    }
    if (!this.#wasReady) {
      this.#released = true;
      this.#neverOpened(error ?? new EvenkeelError('EVENKEEL_CONNECT', 'the connection was lost while it was opened'));
    } else if (this.#ready.length === 0) {
      // The pool opens the next one, with its own pauses.
      this.release('the connection was lost');
      this.#settleLeaving();
    } else if (this.#context.options.clock.now() - leaf.readyAtMs >= USEFUL_LIFE_MS) this.#openMissing();
    else this.#reopenLater();
  }

  /** Opens what `connections.min` lacks, and another one if the others are full. */
  #openMissing(): void {
    const { min } = this.#context.options.connections;
    while (this.#ready.length + this.#opening.size < min) this.#openOne();
    if (this.#streams >= this.capacity) this.#grow();
  }

  /** All connections are full. Opens another one, unless one is being opened or could not be a short time ago. */
  #grow(): void {
    const { max } = this.#context.options.connections;
    if (this.#released || this.#opening.size > 0 || this.#reopenTimer !== undefined || this.#ready.length >= max)
      return;
    this.#openOne();
  }

  #reopenLater(): void {
    if (this.#reopenTimer !== undefined) return;
    const { clock, rng } = this.#context.options;
    const pauseMs = jittered(rng, this.#reopenMs, REOPEN_JITTER_RATIO);
    this.#reopenMs = Math.min(REOPEN_MAX_MS, this.#reopenMs * 1.6);
    this.#reopenTimer = clock.timer(() => {
      this.#reopenTimer = undefined;
      this.#openMissing();
    }, pauseMs);
  }

  #shrinkLater(): void {
    this.#shrinkTimer ??= this.#context.options.clock.timer(() => {
      this.#shrinkTimer = undefined;
      this.#shrink();
    }, SHRINK_INTERVAL_MS);
  }

  /** Closes connections that had no call lately. */
  #shrink(): void {
    const { min } = this.#context.options.connections;
    let closed = false;
    for (let index = this.#ready.length - 1; index >= min; index--) {
      const leaf = this.#ready[index] as Leaf;
      if (leaf.streams === 0 && !leaf.wasUsed) {
        this.#ready.splice(index, 1);
        leaf.release();
        closed = true;
      }
      leaf.wasUsed = false;
    }
    if (closed) this.#capacityChanged?.();
    if (this.#ready.length > min) this.#shrinkLater();
  }
}
