import { type Dispatcher, Pool } from 'undici';
import { PodClient, type PodClientOwner } from './pod-client.js';

/**
 * undici's Pool with one short cut, `dispatchRepeatable`. A Pool learns at the end of the turn that an answer is complete. A
 * caller whose answer has come usually sends the next request before that, and a Pool then opens another connection, or
 * queues the request when there are as many as there may be. With the short cut it goes out at once, on the connection
 * that has just become free: fewer connections are open, and none of the queueing, waking and searching is paid for.
 *
 * A server that hangs up behind its answers without saying so loses every such request. So only requests that are sent
 * again when they are lost take it, and the first one that is lost ends it for as long as the Pool lives. All others
 * (`dispatch`) get a connection that has rested since its last answer, as in any Pool of undici's.
 */
export class PodPool extends Pool {
  readonly #clients: PodClient[];
  /** Where the search begins: behind the one found last. Answers mostly come in the order the requests went out. */
  #next = 0;
  /** A request is on its way through the Pool, and no client has got it yet. */
  #entering = false;
  /** Requests that wait in the Pool: they were here first. */
  #queued = 0;
  #hurries = true;

  constructor(origin: URL, options: Pool.Options) {
    const clients: PodClient[] = [];
    const owner: PodClientOwner = {
      dispatching: () => this.#dispatching(),
      hungUp: () => {
        this.#hurries = false;
      },
    };
    super(origin, {
      ...options,
      factory: (own, clientOptions) => {
        const client = new PodClient(own, clientOptions as Pool.Options, owner);
        clients.push(client);
        return client;
      },
    });
    this.#clients = clients;
    // A Pool drops a client that could not connect.
    this.on('connectionError', (_origin, targets) => {
      const index = clients.findIndex((client) => targets.includes(client));
      if (index !== -1) clients.splice(index, 1);
    });
    // Emitted when nothing waits: whatever was refused on its way in is no longer counted then, either.
    this.on('drain', () => {
      this.#queued = 0;
    });
  }

  /** Sends a request that is sent again if it is lost. */
  dispatchRepeatable(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const free = this.#hurries && this.#queued === 0 ? this.#freeBeforeDrain() : undefined;
    if (free !== undefined) {
      // Once the Pool is closed its clients are, too, and refuse it themselves.
      free.hurry(options, handler);
      // The Pool, whose drain a caller would wait for, has not been asked: the next request may find that it is full.
      return true;
    }
    return this.dispatch(options, handler);
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.#entering = true;
    const more = super.dispatch(options, handler);
    if (this.#entering) this.#queued++;
    this.#entering = false;
    return more;
  }

  #freeBeforeDrain(): PodClient | undefined {
    const clients = this.#clients;
    const { length } = clients;
    let index = this.#next;
    for (let looked = 0; looked < length; looked++) {
      index = index + 1 < length ? index + 1 : 0;
      const client = clients[index] as PodClient;
      if (!client.isFreeBeforeDrain) continue;
      this.#next = index;
      return client;
    }
    return undefined;
  }

  /** A client gets a request: the one that is entering, or one that was queued. */
  #dispatching(): void {
    if (this.#entering) this.#entering = false;
    else if (this.#queued > 0) this.#queued--;
  }
}

/** Sends a request to a pod, over a connection that is used again at once if the request is sent again when it is lost. */
export function dispatchTo(
  pool: Pool,
  options: Dispatcher.DispatchOptions,
  handler: Dispatcher.DispatchHandler,
  isRepeated: boolean,
): boolean {
  if (isRepeated && pool instanceof PodPool) return pool.dispatchRepeatable(options, handler);
  return pool.dispatch(options, handler);
}
