/** A query as it arrived. */
export interface DnsQueryEntry {
  /** The name asked for, in lower case. */
  readonly name: string;
  /** The type of the query, such as `A`, `AAAA` or `SRV`. */
  readonly type: string;
  /** How the query arrived; a truncated answer over UDP is requested again over TCP. */
  readonly protocol: 'udp' | 'tcp';
}

/** Beyond this the log drops the oldest queries; the counters keep counting. */
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

  /** The most queries of this name that ran at the same time. */
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

  /** A query runs until the returned function is called. The same `id` twice is one query, repeated. */
  begin(name: string, id: string): () => void {
    const running = this.#running.get(name) ?? new Set();
    this.#running.set(name, running.add(id));
    this.#peaks.set(name, Math.max(this.peak(name), running.size));
    return () => {
      running.delete(id);
      if (running.size === 0) this.#running.delete(name);
    };
  }

  /** Running queries will not be answered any more. */
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
