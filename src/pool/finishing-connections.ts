import type { SubchannelOwner } from './subchannel-owner.js';
import type { Connection } from './transport.js';

/** The connections of a subchannel that get no new calls but are not closed yet: replaced ones, and ones the other side is closing. */
export class FinishingConnections<C> {
  readonly #owner: SubchannelOwner<C>;
  readonly #connections = new Set<Connection<C>>();

  constructor(owner: SubchannelOwner<C>) {
    this.#owner = owner;
  }

  /** No new calls use it; running ones may finish. */
  add(connection: Connection<C>): void {
    this.#connections.add(connection);
    const closed = (): void => void this.#connections.delete(connection);
    connection.closed.then(closed, closed);
    this.#owner.retire(connection, 'finish');
  }

  /** Tells all of them, and the current one, that their endpoint left. */
  left(current: Connection<C> | undefined): void {
    for (const connection of [...this.#connections, current]) this.#tell(() => connection?.left?.());
  }

  /** Tells the current one that its endpoint is back. */
  returned(current: Connection<C> | undefined): void {
    this.#tell(() => current?.returned?.());
  }

  #tell(told: () => void): void {
    try {
      told();
    } catch (error) {
      this.#owner.warnings.warn('a connection threw when it was told that its endpoint left or returned', error);
    }
  }
}
