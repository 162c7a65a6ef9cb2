import { promises as dns } from 'node:dns';
import { optionError } from '../runtime/check.js';

/** An address record in a DNS answer. */
export interface DnsAddress {
  /** An IPv4 or IPv6 address as text. */
  readonly address: string;
  /** How long the record is valid, in seconds. Node.js only returns it for the first 256 records of an answer. */
  readonly ttl?: number | undefined;
}

/** A service record in a DNS answer (RFC 2782). */
export interface DnsService {
  /** The name of the host that provides the service. It has to be resolved to addresses in turn. */
  readonly name: string;
  /** The port of the service on that host, from 1 to 65535. */
  readonly port: number;
  /** The priority of the record; hosts with the smallest number are used first. In Kubernetes all have the same. */
  readonly priority: number;
  /** The record's weight: its host's share of the requests among hosts of one priority. In Kubernetes all are about equal. */
  readonly weight: number;
}

/**
 * Sends queries to name servers. Names are given in full, so that no search list and no hosts file is needed. A failed query rejects with
 * an error that has a `code` of node:dns, such as `ENOTFOUND`, `ENODATA` or `ESERVFAIL`. `promises.Resolver` of node:dns is such a client,
 * and tests may pass their own.
 */
export interface DnsClient {
  /** Queries the IPv4 addresses of a name (A records), with the time for which they are valid. */
  resolve4(name: string): Promise<readonly DnsAddress[]>;
  /** Queries the IPv6 addresses of a name (AAAA records), with the time for which they are valid. */
  resolve6(name: string): Promise<readonly DnsAddress[]>;
  /** Queries the SRV records of a name. A headless Service has one for each pod and port. */
  resolveSrv(name: string): Promise<readonly DnsService[]>;
  /** Rejects all running queries, with the code `ECANCELLED`. The client can still be used afterwards. */
  cancel(): void;
}

/** Creates a DNS client. Called once for each watch, and again after a failure, so that changed name servers are noticed. */
export type DnsClientFactory = () => DnsClient;

/** Options of `nodeDnsClient`: which name servers to query and how patiently. */
export interface NodeDnsOptions {
  /** The name servers, as `ip` or `ip:port`; undefined means the machine's own. */
  readonly servers: readonly string[] | undefined;
  /** How long the first attempt of a query may take, in ms. Each further attempt may take twice as long as the one before. */
  readonly timeoutMs: number;
  /** How many attempts are made at each name server for one query. */
  readonly tries: number;
}

/**
 * A DNS client that uses the resolver of node:dns. Unlike `dns.lookup`, it does not use Node's thread pool, where a single name server
 * that hangs would delay file access.
 */
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
