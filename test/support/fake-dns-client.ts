import type { DnsAddress, DnsClient, DnsService } from '../../src/resolver/dns-client.js';

type Answer = readonly string[] | readonly DnsAddress[] | readonly DnsService[] | string | Promise<never>;

/** A DnsClient with fixed answers: `'A name'` → addresses, records, an error code, or a promise that never settles. */
export class FakeDnsClient implements DnsClient {
  readonly asked: string[] = [];
  readonly answers: Record<string, Answer> = {};
  cancelled = 0;
  /** The most queries open at the same time. */
  peak = 0;
  #open = 0;
  readonly #rejects = new Set<(error: Error) => void>();

  resolve4(name: string): Promise<readonly DnsAddress[]> {
    return this.#ask(`A ${name}`);
  }

  resolve6(name: string): Promise<readonly DnsAddress[]> {
    return this.#ask(`AAAA ${name}`);
  }

  resolveSrv(name: string): Promise<readonly DnsService[]> {
    return this.#ask(`SRV ${name}`);
  }

  cancel(): void {
    this.cancelled++;
    for (const reject of this.#rejects) reject(dnsError('ECANCELLED'));
    this.#rejects.clear();
  }

  async #ask<T>(question: string): Promise<readonly T[]> {
    this.asked.push(question);
    this.#open++;
    this.peak = Math.max(this.peak, this.#open);
    try {
      const answer = await this.#answer(question);
      if (typeof answer === 'string') throw dnsError(answer);
      return answer.map((entry) => (typeof entry === 'string' ? { address: entry, ttl: 5 } : entry)) as T[];
    } finally {
      this.#open--;
    }
  }

  async #answer(question: string): Promise<Exclude<Answer, Promise<never>>> {
    const answer = this.answers[question] ?? 'ENOTFOUND';
    if (!(answer instanceof Promise)) return answer;
    return new Promise((_, reject) => this.#rejects.add(reject));
  }
}

export function dnsError(code: string): Error {
  return Object.assign(new Error(`query ${code}`), { code });
}
