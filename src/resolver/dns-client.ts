import { promises as dns } from 'node:dns';
import { optionError } from '../runtime/check.js';

/** An address record in a DNS answer. */
export interface DnsAddress {
  /** An IPv4 or IPv6 address as text. */
  readonly address: string;
  /** How long the record is valid, in seconds. Node only gives it for the first 256 records of an answer. */
  readonly ttl?: number | undefined;
}

/** A service record in a DNS answer (RFC 2782). */
export interface DnsService {
  /** The host that provides the service, to be resolved to addresses. */
  readonly name: string;
  /** The port of the service on that host, from 1 to 65535. */
  readonly port: number;
  /** The record's priority: hosts with a smaller one go first. Kubernetes gives all the same. */
  readonly priority: number;
  /** The host's share among hosts of one priority. Kubernetes divides 100 evenly. */
  readonly weight: number;
}

/**
 * Sends queries to name servers. Names are absolute: no search list, no hosts file. Rejects with an error whose `code` is one of node:dns
 * (`ENOTFOUND`, `ENODATA`, `ESERVFAIL` …). `promises.Resolver` of node:dns is one; a test passes its own.
 */
export interface DnsClient {
  /** Queries A records with their TTLs. */
  resolve4(name: string): Promise<readonly DnsAddress[]>;
  /** Queries AAAA records with their TTLs. */
  resolve6(name: string): Promise<readonly DnsAddress[]>;
  /** Queries SRV records: a headless Service has one per pod and port. */
  resolveSrv(name: string): Promise<readonly DnsService[]>;
  /** Rejects all running queries, with the code `ECANCELLED`. Later queries work. */
  cancel(): void;
}

/** Makes a DNS client. Called once per watch, and again after a failure, so that changed name servers are noticed. */
export type DnsClientFactory = () => DnsClient;

/** Options of `nodeDnsClient`. */
export interface NodeDnsOptions {
  /** The name servers, as `ip` or `ip:port`; absent: the machine's name servers. */
  readonly servers: readonly string[] | undefined;
  /** How long the first try of a query may take, in ms; the time doubles with each further try. */
  readonly timeoutMs: number;
  /** How often each name server is tried for one query. */
  readonly tries: number;
}

/** A DNS client over c-ares, with its own channel: it does not use the thread pool, where one hanging name would block file access. */
export function nodeDnsClient({ servers, timeoutMs, tries }: NodeDnsOptions): DnsClient {
  const resolver = new dns.Resolver({ timeout: timeoutMs, tries });
  if (servers !== undefined) resolver.setServers(servers);
  return {
    resolve4: (name) => resolver.resolve4(name, { ttl: true }),
    resolve6: (name) => resolver.resolve6(name, { ttl: true }),
    resolveSrv: (name) => resolver.resolveSrv(name),
    cancel: () => resolver.cancel(),
  };
}

/** Checks the option `servers`, a list of name servers. Throws EVENKEEL_OPTION. */
export function checkServers(value: unknown): readonly string[] | undefined {
  if (value === undefined) return undefined;
  const expected = "a list of at least one 'ip' or 'ip:port'";
  if (!Array.isArray(value) || value.length === 0) throw optionError('servers', expected, value);
  try {
    new dns.Resolver().setServers(value);
  } catch {
    throw optionError('servers', expected, value.join(', '));
  }
  return Object.freeze([...value]);
}
