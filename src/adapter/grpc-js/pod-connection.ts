import { type Connection, type Endpoint, EvenkeelError } from '../../index.js';
import { ConnectionGroup, ReportAsking } from '../kit/index.js';
import { Leaf, type LeafContext } from './leaf.js';
import type { ResolvedGrpcOptions } from './options.js';
import { checkHealth } from './server-reports.js';

/** What the pods of one channel share. */
export interface PodContext extends LeafContext {
  readonly options: ResolvedGrpcOptions;
}

/** One pod as a channel uses it: one connection, or several if the option `connections` says so. */
export class PodConnection implements Connection<PodConnection> {
  /** Settles when the pod's first connection is ready; rejects if that cannot be opened. */
  readonly opened: Promise<PodConnection>;
  /** Decides which calls ask the pod's server for a load report. */
  readonly reportAsking: ReportAsking = new ReportAsking();
  readonly #leaves: ConnectionGroup<Leaf>;
  readonly #healthService: string;

  constructor(endpoint: Endpoint, context: PodContext) {
    const { connections, clock, rng, healthService } = context.options;
    this.#healthService = healthService;
    this.#leaves = new ConnectionGroup<Leaf>({
      open: (events) => new Leaf(endpoint, context, events),
      connections,
      neverOpened: (reason) => new EvenkeelError('EVENKEEL_CONNECT', reason),
      clock,
      rng,
    });
    this.opened = this.#leaves.opened.then(() => this);
  }

  get handle(): PodConnection {
    return this;
  }

  get capacity(): number {
    return this.#leaves.capacity;
  }

  get sockets(): number {
    return this.#leaves.size;
  }

  get leaving(): Promise<void> {
    return this.#leaves.leaving;
  }

  get closed(): Promise<undefined> {
    return this.#leaves.closed;
  }

  watchCapacity(changed: () => void): void {
    this.#leaves.watchCapacity(changed);
  }

  /** The connection for the next call, as `ConnectionGroup.next` chooses it. */
  next(): Leaf | undefined {
    return this.#leaves.next();
  }

  callStarted(leaf: Leaf): void {
    this.#leaves.callStarted(leaf);
  }

  callEnded(leaf: Leaf): void {
    this.#leaves.callEnded(leaf);
  }

  /** Checks the pod's health by grpc.health.v1, over a connection that calls use. */
  async ping(signal: AbortSignal): Promise<void> {
    const leaf = this.next();
    if (leaf === undefined) throw new Error('the connection was just lost');
    await checkHealth(leaf, this.#healthService, signal);
  }

  /** Gives the pod's connections up. Running calls finish; only their servers and deadlines can cut them. */
  close(signal?: AbortSignal): Promise<void> {
    return this.#leaves.close(signal);
  }

  /** Releases every connection to the pod immediately. */
  release(reason: string): void {
    this.#leaves.release(reason);
  }
}
