import type { Clock, Timer } from '../runtime/clock.js';

/** A connection that a server keeps open for hours, such as a WebSocket. */
interface LivingConnection {
  once(event: 'close', listener: () => void): unknown;
}

/** When a pod that shuts down closes its long-lived connections, in ms. */
export interface ConnectionTimes {
  /** How long clients have to leave by themselves after the pod began to close, in ms. */
  readonly leaveMs: number;
  /** Over how much time the connections that have not left are closed, in ms. */
  readonly spreadMs: number;
}

/**
 * Closes the long-lived connections of a pod that shuts down. Clients that watch the Service leave by themselves, one by one. Connections
 * that are still there after `leaveMs` are closed, evenly spread over `spreadMs`, so that clients do not all reconnect to other pods at
 * once.
 */
export class ClosingConnections<C extends LivingConnection> {
  readonly #open: ReadonlySet<C>;
  readonly #close: (connection: C) => void;
  readonly #clock: Clock;
  readonly #times: ConnectionTimes;
  readonly #timers = new Set<Timer>();
  #isClosing = false;

  /**
   * @param open The set of open connections, which the caller keeps up to date. @param close Closes one connection with its protocol's own
   * goodbye.
   */
  constructor(open: ReadonlySet<C>, close: (connection: C) => void, clock: Clock, times: ConnectionTimes) {
    this.#open = open;
    this.#close = close;
    this.#clock = clock;
    this.#times = times;
  }

  /** A connection was opened. */
  opened(connection: C): void {
    if (this.#isClosing) this.#close(connection);
  }

  /** The pod begins to close, and its clients have `leaveMs` to leave by themselves. */
  begin(): void {
    if (!this.#isClosing) this.#after(this.#times.leaveMs, () => this.#spread());
  }

  /** Closes all connections that are still open. */
  closeAll(): void {
    this.#isClosing = true;
    this.#stop();
    for (const connection of [...this.#open]) this.#close(connection);
  }

  /** Resolves when all connections are closed. */
  async ended(): Promise<void> {
    for (const connection of this.#open) {
      await new Promise<void>((resolve) => {
        connection.once('close', resolve);
      });
    }
    this.#stop();
  }

  #spread(): void {
    this.#isClosing = true;
    const connections = [...this.#open];
    connections.forEach((connection, index) => {
      this.#after((this.#times.spreadMs * index) / connections.length, () => this.#close(connection));
    });
  }

  #stop(): void {
    for (const timer of this.#timers) timer.cancel();
    this.#timers.clear();
  }

  #after(delayMs: number, fn: () => void): void {
    const timer = this.#clock.timer(() => {
      this.#timers.delete(timer);
      fn();
    }, delayMs);
    this.#timers.add(timer);
  }
}
