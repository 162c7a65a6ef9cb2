import { Attributes } from '../endpoint/attributes.js';
import { endpointConnectionAgeMs } from '../endpoint/connection-age.js';
import { createEndpoint, type Endpoint } from '../endpoint/endpoint.js';
import { type ClusterNames, parseServiceHost, plainName } from './cluster-domain.js';
import { dnsPolling, type ResolvedDnsOptions } from './dns.js';
import type { DnsClient } from './dns-client.js';
import type { DnsFound, DnsTarget } from './dns-lookup.js';
import type { Resolver } from './resolver.js';

/** What is needed to find endpoints by DNS. */
export interface DnsModeOptions {
  /** The target as the user wrote it. */
  readonly target: string;
  /** The name in the target. */
  readonly host: string;
  /** The number of the Service's port, or its name. */
  readonly port: number | string;
  /** The options of DNS lookups; `dnsMode` adds `host`, `port` and `srv`. */
  readonly dns: Omit<ResolvedDnsOptions, 'host' | 'port' | 'srv'>;
  /** How many connections are opened to the single address of a Service, and when they are replaced. */
  readonly slots: SlotOptions;
}

/**
 * Finds endpoints by DNS. If the name has several addresses, those are pods. If it has a single one that does not belong to a pod, it is
 * the Service's own address, which gets several connections. `podPorts` returns the ports that the pods had according to the EndpointSlices
 * seen last.
 */
export function dnsMode(
  options: DnsModeOptions,
  names: ClusterNames | undefined,
  podPorts: () => ReadonlySet<number>,
): Resolver {
  const { target, port, dns } = options;
  const dnsOptions: ResolvedDnsOptions = {
    ...dns,
    host: dnsHost(options, names),
    port: typeof port === 'number' ? port : undefined,
    srv: typeof port === 'string' ? port : undefined,
  };
  const kind = new AddressKind();
  const slots = slotMaker(options.slots);
  const endpoints = async (
    { targets, single }: DnsFound,
    client: DnsClient,
    absolute: string,
  ): Promise<readonly Endpoint[]> => {
    const [only, ...more] = targets;
    // A single address counts as that of a Service only if the name has the form of a Service's name.
    const sole = only !== undefined && more.length === 0 && parseServiceHost(absolute) !== undefined;
    if (sole && (single ?? (await kind.of(only.address, absolute, client)) !== 'pod')) return slots(only);
    // DNS does not know which port of the pods belongs to the Service's port. If the EndpointSlices were seen before and all pods had
    // the same port, that one is used.
    const ports = podPorts();
    const [podPort] = typeof port === 'number' && ports.size === 1 ? ports : [];
    return targets.map((found) => createEndpoint(podPort === undefined ? found : { ...found, port: podPort }));
  };
  return dnsPolling(target, dnsOptions, endpoints);
}

function dnsHost({ host, dns }: DnsModeOptions, names: ClusterNames | undefined): string {
  const { domain, namespace } = names ?? { domain: 'cluster.local', namespace: undefined };
  return plainName(host, { domain, namespace }, namespace !== undefined || dns.clusterDomain !== undefined);
}

/** How to use the single address of a Service, behind which something else, such as kube-proxy, chooses a pod for each connection. */
export interface SlotOptions {
  /** How many connections are opened to the address. Each counts as an endpoint of its own. */
  readonly connections: number;
  /** The average age at which such a connection is replaced by a new one, in ms. */
  readonly connectionAgeMs: number;
}

/**
 * Turns one address into several endpoints, which are called slots. kube-proxy chooses a pod at random whenever a connection opens.
 * Several connections therefore reach several pods, and replacing them from time to time reaches others. Each slot has its own uid, so that
 * it is treated like a pod: if one reached a bad pod, only that slot is taken out.
 */
export function slotMaker({ connections, connectionAgeMs }: SlotOptions): (target: DnsTarget) => readonly Endpoint[] {
  const attributes = Attributes.empty.with(endpointConnectionAgeMs, connectionAgeMs);
  return ({ address, port }) =>
    Array.from({ length: connections }, (_, index) =>
      createEndpoint({ address, port, uid: `slot-${index + 1}`, name: `slot ${index + 1}`, attributes }),
    );
}

/** Whether a set consists of slots, that is, of several endpoints made from the single address of a Service. */
export function isSlots(endpoints: readonly Endpoint[]): boolean {
  return endpoints[0]?.attributes.get(endpointConnectionAgeMs) !== undefined;
}

/**
 * Finds out whether the single address of a Service belongs to its only pod or is its cluster IP, behind which there may be many pods.
 * Address records look the same for both, but SRV records do not: for a cluster IP they name the Service itself, and for a headless Service
 * each pod.
 */
export class AddressKind {
  /** The last result and the address it applies to. */
  #known: { readonly address: string; readonly kind: 'cluster-ip' | 'pod' | 'unknown' } | undefined;

  /** Returns what kind of address it is; `unknown` if DNS has no SRV records for the name. Never rejects. */
  async of(address: string, absolute: string, client: DnsClient): Promise<'cluster-ip' | 'pod' | 'unknown'> {
    if (this.#known?.address === address) return this.#known.kind;
    try {
      const kind = kindOf(await client.resolveSrv(absolute), absolute);
      this.#known = { address, kind };
      return kind;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // That there are no records is an answer, which is kept. After any other error, DNS is queried again next time.
      if (code === 'ENODATA' || code === 'ENOTFOUND') this.#known = { address, kind: 'unknown' };
      return 'unknown';
    }
  }
}

function kindOf(
  records: readonly { readonly name: string; readonly port: number }[],
  absolute: string,
): 'cluster-ip' | 'pod' | 'unknown' {
  // Some name servers answer with an SRV record with port 0 for any name. Such records are ignored.
  const targets = records.filter((record) => record.port !== 0).map((record) => `${record.name.toLowerCase()}.`);
  if (targets.includes(absolute)) return 'cluster-ip';
  return targets.length > 0 && targets.every((target) => target.endsWith(`.${absolute}`)) ? 'pod' : 'unknown';
}
