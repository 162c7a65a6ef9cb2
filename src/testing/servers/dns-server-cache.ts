import type { Clock } from '../../runtime/clock.js';
import type { DnsAnswer, DnsRecord } from './dns-server-wire.js';

interface Cached {
  readonly answer: DnsAnswer;
  readonly filledAt: number;
  readonly ttlMs: number;
}

/** A cache as between a client and a name server: returns one answer until its shortest TTL is over, with TTLs that count down to 0. */
export class DnsAnswerCache {
  readonly #clock: Clock;
  readonly #answers = new Map<string, Cached>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get(name: string, type: string, fresh: () => DnsAnswer): DnsAnswer {
    const key = `${name} ${type}`;
    const now = this.#clock.now();
    let cached = this.#answers.get(key);
    if (cached === undefined || now - cached.filledAt >= cached.ttlMs) {
      const answer = fresh();
      const ttls = [...answer.answers, ...(answer.authority ?? [])].map((record) => record.ttl);
      cached = { answer, filledAt: now, ttlMs: ttls.length === 0 ? 0 : Math.min(...ttls) * 1_000 };
      this.#answers.set(key, cached);
    }
    const ageSeconds = Math.floor((now - cached.filledAt) / 1_000);
    const aged = (records: readonly DnsRecord[] = []): DnsRecord[] =>
      records.map((record) => ({ ...record, ttl: Math.max(0, record.ttl - ageSeconds) }));
    const { rcode, answers, authority, additional } = cached.answer;
    return { rcode, answers: aged(answers), authority: aged(authority), additional: aged(additional) };
  }
}
