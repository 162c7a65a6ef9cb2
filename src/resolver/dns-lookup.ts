import { isIP } from 'node:net';
import { asError, ResolveError } from '../errors.js';
import type { DnsAddress, DnsClient, DnsService } from './dns-client.js';

/** All that a DNS lookup of endpoints needs to know. */
export interface DnsQuestion {
  /** The absolute name, with a trailing dot. */
  readonly name: string;
  /** Port of every address that is found; with `srv`, the port if there are no SRV records. */
  readonly port: number | undefined;
  /** Name of the port whose SRV records are queried. */
  readonly srv: string | undefined;
  /** The families of addresses that count, by preference: the second only if the name has no address of the first. */
  readonly families: readonly (4 | 6)[];
}

export interface DnsTarget {
  readonly address: string;
  readonly port: number;
  /** The host name of the pod, if SRV gave one. */
  readonly name: string | undefined;
  readonly weight: number;
}

/** The result of a lookup; no targets means "no such records". */
export interface DnsFound {
  readonly targets: readonly DnsTarget[];
  /** How long the result may be cached, in ms; undefined if unknown. */
  readonly ttlMs: number | undefined;
  /**
   * True if SRV names the Service itself as its target: one address for all pods. False if it names each pod. Undefined if SRV was
   * not queried.
   */
  readonly single: boolean | undefined;
}

/** The largest weight in an SRV record, which has 16 bits. */
const MAX_WEIGHT = 65_535;
/** The most endpoints of a lookup: more than fits into one answer of any type. */
const MAX_TARGETS = 10_000;
/** How many SRV targets are resolved in parallel. */
const PARALLEL_TARGETS = 16;

const none: DnsFound = Object.freeze({ targets: [], ttlMs: undefined, single: undefined });

/**
 * Looks up a name once. Rejects with a ResolveError for every outcome that says nothing about the records. `lastPort`: the one port that
 * SRV records had before, for when the answer no longer fits into a message.
 */
export async function lookUp(client: DnsClient, question: DnsQuestion, lastPort?: number): Promise<DnsFound> {
  if (question.srv === undefined) return atPort(await addresses(client, question), question.port as number);
  try {
    return await services(client, question);
  } catch (error) {
    const port = question.port ?? lastPort;
    if (codeOf(error) === 'EFORMERR' && port !== undefined) return atPort(await addresses(client, question), port);
    throw error;
  }
}

/** Queries the addresses of a name, of the preferred family or else of the other; empty for "no such records". */
async function addresses(client: DnsClient, { name, families }: DnsQuestion): Promise<readonly DnsAddress[]> {
  for (const family of families) {
    const found = await (family === 4
      ? queryAddresses('A', name, () => client.resolve4(name))
      : queryAddresses('AAAA', name, () => client.resolve6(name)));
    // A name without addresses of one family may have some of the other; a name that does not exist has none.
    if (found === 'ENOTFOUND') return [];
    if (found !== 'ENODATA') return found;
  }
  return [];
}

/**
 * Queries the addresses of one family. Drops anything that is not an IP address; an answer without any address says nothing about the
 * records.
 */
async function queryAddresses(
  type: 'A' | 'AAAA',
  name: string,
  query: () => Promise<readonly DnsAddress[]>,
): Promise<readonly DnsAddress[] | 'ENOTFOUND' | 'ENODATA'> {
  const found = await queryRecords(type, name, query);
  if (typeof found === 'string') return found;
  const usable = found.filter(({ address }) => isIP(address) !== 0);
  if (usable.length === 0) throw new ResolveError(`the answer of DNS for ${type} ${name} contains no IP address`);
  return usable;
}

async function services(client: DnsClient, question: DnsQuestion): Promise<DnsFound> {
  const { name, srv } = question;
  const owner = `_${srv}._tcp.${name}`;
  const answer = await queryRecords('SRV', owner, () => client.resolveSrv(owner));
  if (typeof answer === 'string') return none;
  // Port 0 in an SRV record is unusable, but one bad record must not cost the others.
  const found = answer.filter(
    ({ port, priority }) => Number.isInteger(port) && port >= 1 && port <= 65_535 && Number.isFinite(priority),
  );
  if (found.length === 0 && answer.some(({ name: host }) => !isNowhere(host))) {
    throw new ResolveError(`DNS has no record for SRV ${owner} that can be used: none has a port from 1 to 65535`);
  }
  // RFC 2782: only the records of the lowest priority count while they answer, and the target "." means "not here".
  let lowest = Number.POSITIVE_INFINITY;
  for (const { priority } of found) lowest = Math.min(lowest, priority);
  const records = found.filter((record) => record.priority === lowest && !isNowhere(record.name));
  if (records.length === 0) return none;
  const hosts = new Set(records.map((record) => record.name.toLowerCase()));
  const single = hosts.size === 1 && `${[...hosts][0]}.` === name;
  const port = onlyPort(records);
  if (port !== undefined && isBelow(hosts, name)) {
    // One query for all pods instead of one per pod, if it returns as many addresses as SRV has targets.
    const all = await addresses(client, question);
    if (new Set(all.map((record) => record.address)).size === hosts.size) return { ...atPort(all, port), single };
  }
  return { ...(await perTarget(client, question, records)), single };
}

function isNowhere(host: string): boolean {
  return host === '' || host === '.';
}

async function perTarget(
  client: DnsClient,
  question: DnsQuestion,
  records: readonly DnsService[],
): Promise<Omit<DnsFound, 'single'>> {
  const hosts = [...new Set(records.map((record) => record.name))];
  const found = new Map<string, readonly DnsAddress[]>();
  const queryAll = async (family: 4 | 6 | undefined): Promise<void> => {
    if (family === undefined) return;
    const waiting = [...hosts];
    const worker = async (): Promise<void> => {
      try {
        for (let host = waiting.pop(); host !== undefined; host = waiting.pop()) {
          found.set(host, await addresses(client, { ...question, name: `${host}.`, families: [family] }));
        }
      } finally {
        // One failed query fails the whole lookup, so the other workers stop.
        waiting.length = 0;
      }
    };
    await Promise.all(Array.from({ length: PARALLEL_TARGETS }, worker));
  };
  const [first, second] = question.families;
  await queryAll(first);
  if ([...found.values()].every((list) => list.length === 0)) await queryAll(second);

  const weigh = weigher(records);
  const targets: DnsTarget[] = [];
  for (const record of records) {
    for (const { address } of found.get(record.name) ?? []) {
      // Each of many SRV records may name each of many addresses, so the number of results is limited.
      if (targets.length === MAX_TARGETS)
        throw new ResolveError(`DNS has more than ${MAX_TARGETS} addresses for ${question.name}`);
      targets.push({ address, port: record.port, name: record.name, weight: weigh(record) });
    }
  }
  return { targets, ttlMs: shortestTtl([...found.values()].flat()) };
}

function atPort(records: readonly DnsAddress[], port: number): DnsFound {
  return {
    targets: records.map(({ address }) => ({ address, port, name: undefined, weight: 1 })),
    ttlMs: shortestTtl(records),
    single: undefined,
  };
}

function shortestTtl(records: readonly DnsAddress[]): number | undefined {
  let shortest: number | undefined;
  for (const { ttl } of records) {
    if (ttl !== undefined && ttl >= 0 && (shortest === undefined || ttl < shortest)) shortest = ttl;
  }
  return shortest === undefined ? undefined : shortest * 1_000;
}

/** The port and weight that all SRV records share; undefined if they differ and must be handled one by one. */
function onlyPort(records: readonly DnsService[]): number | undefined {
  const [first] = records;
  const same = records.every((record) => record.port === first?.port && record.weight === first.weight);
  return same ? first?.port : undefined;
}

function isBelow(hosts: ReadonlySet<string>, name: string): boolean {
  return [...hosts].every((host) => `${host}.` === name || `${host}.`.endsWith(`.${name}`));
}

/**
 * Returns the weight of an SRV record for endpoints. Equal weights carry no information. Weight 0 means a very small share (RFC 2782),
 * never none.
 */
function weigher(records: readonly DnsService[]): (record: DnsService) => number {
  const weights = new Set(records.map((record) => record.weight));
  if (weights.size === 1) return () => 1;
  return ({ weight }) => (weight > 0 && weight <= MAX_WEIGHT ? weight : 0.1);
}

/** Makes a query, and tells "no such records" from "no answer". */
async function queryRecords<T>(
  type: string,
  name: string,
  query: () => Promise<readonly T[]>,
): Promise<readonly T[] | 'ENOTFOUND' | 'ENODATA'> {
  try {
    const records = await query();
    return records.length === 0 ? 'ENODATA' : records;
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ENOTFOUND' || code === 'ENODATA') return code;
    const why = meanings.get(code) ?? asError(error).message;
    throw new ResolveError(`DNS has no answer for ${type} ${name}: ${why} (${code})`, { cause: error });
  }
}

const meanings: ReadonlyMap<string, string> = new Map([
  ['ESERVFAIL', 'the name server could not answer'],
  ['EREFUSED', 'the name server refuses the query'],
  ['ECONNREFUSED', 'no name server listens'],
  ['ETIMEOUT', 'the name server is silent'],
  ['ECANCELLED', 'the name server is silent'],
  ['EBADRESP', 'the answer is garbled'],
  ['EFORMERR', 'the answer is too large or malformed'],
]);

/** The node:dns code of an error, or of its cause. */
export function codeOf(error: unknown): string {
  for (let at = error; at instanceof Error; at = at.cause) {
    const { code } = at as NodeJS.ErrnoException;
    if (code !== undefined && !code.startsWith('EVENKEEL_')) return code;
  }
  return 'EUNKNOWN';
}
