import { createEndpoint, type Endpoint } from '../endpoint/endpoint.js';
import { type ClusterNames, parseServiceHost, plainName } from './cluster-domain.js';
import { dnsPolling, type ResolvedDnsOptions } from './dns.js';
import type { DnsClient } from './dns-client.js';
import type { DnsFound } from './dns-lookup.js';
import type { Resolver } from './resolver.js';
import { AddressKind, type SlotOptions, slotMaker } from './single-address.js';

/** What the two lower discovery modes need. */
export interface DnsModeOptions {
  /** The target as the user wrote it. */
  readonly target: string;
  /** The name in the target. */
  readonly host: string;
  /** The Service's port, or its name. */
  readonly port: number | string;
  /** The settings of DNS lookups; `host`, `port` and `srv` are filled in by `dnsMode`. */
  readonly dns: Omit<ResolvedDnsOptions, 'host' | 'port' | 'srv'>;
  /** How many connections a Service's single address gets, and for how long. */
  readonly slots: SlotOptions;
}

/**
 * The two lower discovery modes, which share one DNS query: several addresses are pods; a single one that is not a pod's is the Service's
 * own, and gets several connections. `podPorts` says which ports the pods had when their slices were last seen.
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
    // A single address under a name that is not a Service is used as it is.
    const sole = only !== undefined && more.length === 0 && parseServiceHost(absolute) !== undefined;
    if (sole && (single ?? (await kind.of(only.address, absolute, client)) !== 'pod')) return slots(only);
    // DNS does not know the pod port behind a number of the Service's port. The slices did, if all pods had the same port.
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
