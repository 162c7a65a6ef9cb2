import { isIP } from 'node:net';
import { asError, ResolveError } from '../errors.js';
import type { DnsAddress, DnsClient, DnsService } from './dns-client.js';

/** What to look up in DNS. */
export interface DnsQuestion {
  /** The full name, with a trailing dot. */
  readonly name: string;
  /** The port of every address that is found. With `srv`, it is used if SRV records cannot be had. */
  readonly port: number | undefined;
  /** The name of the port whose SRV records are queried; undefined means that addresses are queried. */
  readonly srv: string | undefined;
  /** The families of addresses to query. The second one is only queried if the name has no address of the first. */
  readonly families: readonly (4 | 6)[];
}

export interface DnsTarget {
  readonly address: string;
  readonly port: number;
  /** The host name of the pod, if an SRV record contained one. */
  readonly name: string | undefined;
  readonly weight: number;
}

/** The result of a lookup. An empty list of targets means that DNS is certain that there are no such records. */
export interface DnsFound {
  readonly targets: readonly DnsTarget[];
  /** How long the result stays valid, in ms; undefined if that is unknown. */
  readonly ttlMs: number | undefined;
  /**
   * Whether the SRV records name the Service itself, which means that it has a single address for all pods. False if they name each pod;
   * undefined if no SRV records were queried.
   */
  readonly single: boolean | undefined;
}

/** The largest possible weight in an SRV record. */
const MAX_WEIGHT = 65_535;
/** The most endpoints that a lookup may find. */
const MAX_TARGETS = 10_000;
/** How many host names from SRV records are resolved in parallel. */
const PARALLEL_TARGETS = 16;

const none: DnsFound = Object.freeze({ targets: [], ttlMs: undefined, single: undefined });

/**
 * Looks up a name once. Rejects with a ResolveError if DNS gave no usable answer; that there are no records is an answer. `lastPort` is
 * the port that all SRV records of the previous lookup had. It is used if the SRV records have become too many for one DNS message.
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

/**
 * Queries the addresses of a name in the preferred family, or in the other one if there are none. Returns an empty list if DNS is certain
 * that there are none.
 */
async function addresses(client: DnsClient, { name, families }: DnsQuestion): Promise<readonly DnsAddress[]> {
  for (const family of families) {
    const found = await (family === 4
      ? queryAddresses('A', name, () => client.resolve4(name))
      : queryAddresses('AAAA', name, () => client.resolve6(name)));
    // ENODATA means that the name exists without such records, so it may have addresses of the other family. ENOTFOUND means that the
    // name does not exist.
    if (found === 'ENOTFOUND') return [];
    if (found !== 'ENODATA') return found;
  }
  return [];
}

/**
 * Queries the addresses of one family, and drops everything that is not an IP address. Rejects if nothing is left of an answer, because
 * such an answer is broken.
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
  // Port 0 in an SRV record is not usable. Other records in the same answer still are.
  const found = answer.filter(
    ({ port, priority }) => Number.isInteger(port) && port >= 1 && port <= 65_535 && Number.isFinite(priority),
  );
  if (found.length === 0 && answer.some(({ name: host }) => !isNowhere(host))) {
    throw new ResolveError(`DNS has no record for SRV ${owner} that can be used: none has a port from 1 to 65535`);
  }
  // According to RFC 2782, only the records with the lowest priority are used, and the host "." means that the service is not available.
  let lowest = Number.POSITIVE_INFINITY;
  for (const { priority } of found) lowest = Math.min(lowest, priority);
  const records = found.filter((record) => record.priority === lowest && !isNowhere(record.name));
  if (records.length === 0) return none;
  const hosts = new Set(records.map((record) => record.name.toLowerCase()));
  const single = hosts.size === 1 && `${[...hosts][0]}.` === name;
  const port = onlyPort(records);
  if (port !== undefined && isBelow(hosts, name)) {
    // All hosts belong to this name, so one query for the name finds the addresses of all pods. Without this, one query per pod would be
    // needed.
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
        // One failed query makes the whole lookup fail, so the others need not continue.
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
      // Many SRV records may each have many addresses, so the number of results is limited.
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

/**
 * Returns the port if all SRV records have the same port and weight; undefined if they differ, so that each must be handled by itself.
 */
function onlyPort(records: readonly DnsService[]): number | undefined {
  const [first] = records;
  const same = records.every((record) => record.port === first?.port && record.weight === first.weight);
  return same ? first?.port : undefined;
}

function isBelow(hosts: ReadonlySet<string>, name: string): boolean {
  return [...hosts].every((host) => `${host}.` === name || `${host}.`.endsWith(`.${name}`));
}

/**
 * Returns a function that converts the weight of an SRV record to that of an endpoint. If all weights are equal, endpoints get weight 1.
 * Weight 0 becomes a very small weight, as RFC 2782 demands, and never none.
 */
function weigher(records: readonly DnsService[]): (record: DnsService) => number {
  const weights = new Set(records.map((record) => record.weight));
  if (weights.size === 1) return () => 1;
  return ({ weight }) => (weight > 0 && weight <= MAX_WEIGHT ? weight : 0.1);
}

/** Sends a query. Returns an error code if DNS is certain that there are no records, and rejects if there was no answer. */
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

/** Returns the node:dns error code of an error or of its cause. */
export function codeOf(error: unknown): string {
  for (let at = error; at instanceof Error; at = at.cause) {
    const { code } = at as NodeJS.ErrnoException;
    if (code !== undefined && !code.startsWith('EVENKEEL_')) return code;
  }
  return 'EUNKNOWN';
}
