import { promises as dns } from 'node:dns';
import { parseServiceHost } from '../resolver/cluster-domain.js';
import type { DnsClient } from '../resolver/dns-client.js';
import { nodeDnsClient } from '../resolver/dns-client.js';
import { codeOf } from '../resolver/dns-lookup.js';
import { AddressKind } from '../resolver/dns-mode.js';
import { systemClock } from '../runtime/clock.js';
import type { ClusterIPFacts, DnsAnswerFacts, DnsFacts, NamespaceFacts } from './report.js';

const patience = { timeoutMs: 2_000, tries: 2 };

export interface DnsProbe {
  /** The full name of the Service, with a trailing dot. */
  readonly name: string;
  /** The named port whose SRV records are queried; undefined if the target has no named port. */
  readonly srv: string | undefined;
  readonly servers: readonly string[] | undefined;
}

/** Sends each DNS query once, as the library would. Never rejects. */
export async function probeDns({ name, srv, servers }: DnsProbe, signal: AbortSignal): Promise<DnsFacts> {
  const client = nodeDnsClient({ servers, ...patience });
  const resolver = new dns.Resolver({ timeout: patience.timeoutMs, tries: patience.tries });
  if (servers !== undefined) resolver.setServers([...servers]);
  const cancel = (): void => {
    client.cancel();
    resolver.cancel();
  };
  signal.addEventListener('abort', cancel, { once: true });
  const srvName = srv === undefined ? name : `_${srv}._tcp.${name}`;
  let first: string | undefined;
  const isService = parseServiceHost(name) !== undefined;
  const [a, aaaa, srvAnswer, [alias]] = await Promise.all([
    query(async () => {
      const records = await client.resolve4(name);
      first = records.length === 1 ? records[0]?.address : undefined;
      return records;
    }),
    query(() => client.resolve6(name)),
    query(() => client.resolveSrv(srvName)),
    isService ? resolver.resolveCname(name).catch(() => []) : [],
  ]);
  const records = a.records + aaaa.records;
  const several = isService ? 'pods' : 'unknown';
  const kind = records > 0 && alias !== undefined ? 'external' : await kindOf(records, several, first, name, client);
  signal.removeEventListener('abort', cancel);
  return {
    name,
    servers: servers ?? new dns.Resolver().getServers(),
    a,
    aaaa,
    srv: { ...srvAnswer, name: srvName },
    kind,
    ...(alias !== undefined && { alias }),
  };
}

/**
 * Finds out whether DNS knows a namespace: CoreDNS answers with a name without records if the namespace exists, and with "no such name"
 * otherwise. A query for a namespace that certainly exists shows whether this server knows namespaces at all. Never rejects.
 */
export async function probeNamespace(
  namespace: string,
  domain: string,
  servers: readonly string[] | undefined,
  signal: AbortSignal,
): Promise<NamespaceFacts> {
  const client = nodeDnsClient({ servers, ...patience });
  const cancel = (): void => client.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  const [answer, control] = await Promise.all(
    [namespace, 'default'].map((name) => query(() => client.resolve4(`${name}.svc.${domain}.`))),
  );
  signal.removeEventListener('abort', cancel);
  const state =
    control?.error !== 'ENODATA'
      ? 'unknown'
      : answer?.error === 'ENOTFOUND'
        ? 'missing'
        : answer?.error === 'ENODATA'
          ? 'known'
          : 'unknown';
  return { name: namespace, state };
}

/**
 * Finds out which addresses are cluster IPs: their reverse records name a Service, while those of pods name the pod. Never rejects.
 */
export async function probeClusterIPs(
  addresses: readonly string[],
  domain: string,
  servers: readonly string[] | undefined,
): Promise<readonly ClusterIPFacts[]> {
  const resolver = new dns.Resolver({ timeout: patience.timeoutMs, tries: 1 });
  if (servers !== undefined) resolver.setServers([...servers]);
  const found = addresses.slice(0, MAX_REVERSE).map(async (address) => {
    const names = await resolver.reverse(address).catch(() => []);
    const service = names.map((name) => parseServiceHost(name)).find((known) => known?.domain === domain);
    return service === undefined ? [] : [{ address, service: `${service.service}.${service.namespace}` }];
  });
  return (await Promise.all(found)).flat();
}

/** The largest number of addresses whose reverse records are queried. */
const MAX_REVERSE = 10;

async function kindOf(
  records: number,
  several: 'pods' | 'unknown',
  only: string | undefined,
  name: string,
  client: DnsClient,
): Promise<DnsFacts['kind']> {
  if (records === 0) return 'none';
  if (only === undefined) return several;
  const kind = await new AddressKind().of(only, name, client);
  return kind === 'pod' ? 'pods' : kind;
}

async function query(
  question: () => Promise<readonly { readonly ttl?: number | undefined }[] | readonly unknown[]>,
): Promise<DnsAnswerFacts> {
  const startedMs = systemClock.now();
  const tookMs = (): number => Math.round(systemClock.now() - startedMs);
  try {
    const records = (await question()) as readonly { readonly ttl?: number }[];
    const ttls = records.map((record) => record.ttl).filter((ttl) => ttl !== undefined);
    return { records: records.length, ttl: ttls.length === 0 ? undefined : Math.min(...ttls), tookMs: tookMs() };
  } catch (error) {
    return { records: 0, ttl: undefined, error: codeOf(error), tookMs: tookMs() };
  }
}

/** Whether a DNS query got no answer at all; "no such name" is an answer. */
export function unanswered({ error }: DnsAnswerFacts): boolean {
  return error !== undefined && error !== 'ENOTFOUND' && error !== 'ENODATA';
}
