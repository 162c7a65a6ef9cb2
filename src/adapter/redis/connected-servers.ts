/** The part of a `Server` that decides which of several counts. */
interface Connected {
  readonly closed: Promise<unknown>;
  /** Whether the connection gets no more reads, because it was replaced, discarded or lost. */
  readonly isClosing: boolean;
}

/**
 * The servers that are connected, by the key of their endpoint. An endpoint has two while its connection is replaced: the new one counts,
 * unless the pool discards it unused, for then reads stay on the old one.
 */
export class ConnectedServers<S extends Connected> {
  readonly #servers = new Map<string, readonly S[]>();
  readonly #changed: () => void;

  /** @param changed Called when another server may count for an endpoint. */
  constructor(changed: () => void) {
    this.#changed = changed;
  }

  opened(key: string, server: S): void {
    this.#servers.set(key, [...(this.#servers.get(key) ?? []), server]);
    this.#changed();
    void server.closed.then(() => {
      const others = this.#servers.get(key)?.filter((other) => other !== server) ?? [];
      if (others.length > 0) this.#servers.set(key, others);
      else this.#servers.delete(key);
      this.#changed();
    });
  }

  /** Returns the server that gets the reads of an endpoint; undefined if none is connected. */
  get(key: string): S | undefined {
    return this.#servers.get(key)?.findLast(({ isClosing }) => !isClosing);
  }
}
