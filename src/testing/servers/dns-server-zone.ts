import type { DnsAnswer, DnsData, DnsRcode, DnsRecord } from './dns-server-wire.js';

/** A source of DNS records. Returns undefined for a name it does not know, and the next source is asked. */
export type DnsSource = (name: string, type: string) => DnsAnswer | undefined;

/** The records of one name, as a test writes them. */
export interface DnsNameRecords {
  /** IPv4 addresses. */
  readonly a?: readonly string[];
  /** IPv6 addresses. */
  readonly aaaa?: readonly string[];
  /** Service records; their priority is 0 and their weight 100 unless given. */
  readonly srv?: readonly {
    readonly target: string;
    readonly port: number;
    readonly priority?: number;
    readonly weight?: number;
  }[];
  /** The name for which this name is an alias (CNAME); excludes all other records. */
  readonly cname?: string;
  /** The name to which an address leads back (PTR), for names under `in-addr.arpa` and `ip6.arpa`. */
  readonly ptr?: string;
  /** How long the records are valid, in seconds. @defaultValue 5 */
  readonly ttl?: number;
}

/** How many CNAMEs are followed before a chain counts as a loop. */
const MAX_CNAMES = 8;

/** A zone of names and their records. To be changed only between queries. */
export class DnsZone {
  readonly #names = new Map<string, DnsNameRecords>();

  /** Sets all records of a name; `{}` is a name that exists without records (NODATA). */
  set(name: string, records: DnsNameRecords): void {
    this.#names.set(canonicalName(name), records);
  }

  /** Forgets a name, which is NXDOMAIN from now on. */
  delete(name: string): void {
    this.#names.delete(canonicalName(name));
  }

  /** Answers queries for known names. The addresses of SRV targets go into the additional section. */
  answer(name: string, type: string): DnsAnswer | undefined {
    const records = this.#names.get(canonicalName(name));
    if (records === undefined) return undefined;
    const ttl = records.ttl ?? 5;
    if (records.cname !== undefined) {
      return { rcode: 'NOERROR', answers: [{ name, ttl, type: 'CNAME', target: canonicalName(records.cname) }] };
    }
    const answers = dataOf(records, type).map((data): DnsRecord => ({ name, ttl, ...data }));
    const additional: DnsRecord[] = [];
    for (const answer of answers) {
      if (answer.type !== 'SRV') continue;
      const target = this.#names.get(canonicalName(answer.target));
      if (target === undefined) continue;
      for (const data of [...dataOf(target, 'A'), ...dataOf(target, 'AAAA')]) {
        additional.push({ name: answer.target, ttl: target.ttl ?? 5, ...data });
      }
    }
    return { rcode: 'NOERROR', answers, additional };
  }
}

/** Asks the sources in order, follows CNAMEs, and answers NXDOMAIN if no source knows the name. */
export function resolveQuestion(sources: readonly DnsSource[], name: string, type: string): DnsAnswer {
  const chain: DnsRecord[] = [];
  let canonical = name;
  for (let hop = 0; hop < MAX_CNAMES; hop++) {
    const answer = firstAnswer(sources, canonical, type);
    const [first] = answer.answers;
    if (first?.type !== 'CNAME' || type === 'CNAME') {
      return { ...answer, answers: [...chain, ...answer.answers] };
    }
    chain.push(first);
    canonical = first.target;
  }
  return { rcode: 'SERVFAIL', answers: [] };
}

/** Creates an answer without records; its SOA says how long it may be cached. */
export function negative(rcode: DnsRcode, zone: string, ttl: number): DnsAnswer {
  const soa: DnsRecord = { name: zone, ttl, type: 'SOA', primary: `ns.dns.${zone}`, minimumTtl: ttl };
  return { rcode, answers: [], authority: [soa] };
}

/** Returns a name in lower case, without the trailing dot. */
export function canonicalName(name: string): string {
  const text = name.toLowerCase();
  return text.endsWith('.') ? text.slice(0, -1) : text;
}

function firstAnswer(sources: readonly DnsSource[], name: string, type: string): DnsAnswer {
  for (const source of sources) {
    const answer = source(name, type);
    if (answer !== undefined) return answer;
  }
  return { rcode: 'NXDOMAIN', answers: [] };
}

function dataOf(records: DnsNameRecords, type: string): DnsData[] {
  switch (type) {
    case 'A':
      return (records.a ?? []).map((address) => ({ type: 'A', address }));
    case 'AAAA':
      return (records.aaaa ?? []).map((address) => ({ type: 'AAAA', address }));
    case 'SRV':
      return (records.srv ?? []).map(({ target, port, priority = 0, weight = 100 }) => ({
        type: 'SRV',
        priority,
        weight,
        port,
        target: canonicalName(target),
      }));
    case 'PTR':
      return records.ptr === undefined ? [] : [{ type: 'PTR', target: canonicalName(records.ptr) }];
    default:
      return [];
  }
}
