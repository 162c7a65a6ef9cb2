/** A DNS query as it arrived. */
export interface DnsQueryEntry {
  /** The queried name, in lower case. */
  readonly name: string;
  /** The type of the query, such as `A`, `AAAA` or `SRV`. */
  readonly type: string;
  /** How the query arrived; a client repeats a query over TCP after a truncated answer over UDP. */
  readonly protocol: 'udp' | 'tcp';
}

/** The size from which on the log drops its oldest queries; the counters keep counting. */
const MAX_LOG = 10_000;

/** Counts the queries of a DNS server, by canonical name. */
export class QueryCounters {
  readonly #log: DnsQueryEntry[] = [];
  /** How many queries arrived, by name, and by name and type. */
  readonly #counts = new Map<string, number>();
  readonly #running = new Map<string, Set<string>>();
  readonly #peaks = new Map<string, number>();

  get log(): readonly DnsQueryEntry[] {
    return this.#log;
  }

  count(name: string, type: string | undefined): number {
    return this.#counts.get(keyOf(name, type)) ?? 0;
  }

  /** The most queries for this name that ran at once. */
  peak(name: string): number {
    return this.#peaks.get(name) ?? 0;
  }

  note(entry: DnsQueryEntry): void {
    this.#log.push(entry);
    if (this.#log.length > MAX_LOG) this.#log.shift();
    for (const key of [keyOf(entry.name, undefined), keyOf(entry.name, entry.type)]) {
      this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
    }
  }

  /** Counts a query as running until the returned function is called. A query with the `id` of a running one is that query, repeated. */
  begin(name: string, id: string): () => void {
    const running = this.#running.get(name) ?? new Set();
    this.#running.set(name, running.add(id));
    this.#peaks.set(name, Math.max(this.peak(name), running.size));
    return () => {
      running.delete(id);
      if (running.size === 0) this.#running.delete(name);
    };
  }

  /** Forgets the running queries, which will not be answered any more. */
  forgetRunning(): void {
    this.#running.clear();
  }

  /** Clears the log and all counts; running queries continue. */
  reset(): void {
    this.#log.length = 0;
    this.#counts.clear();
    this.#peaks.clear();
  }
}

function keyOf(name: string, type: string | undefined): string {
  return `${name} ${type ?? '*'}`;
}
