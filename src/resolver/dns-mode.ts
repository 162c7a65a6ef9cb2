import { createEndpoint, type Endpoint } from '../endpoint/endpoint.js';
import { type ClusterNames, parseServiceHost, plainName } from './cluster-domain.js';
import { dnsPolling, type ResolvedDnsOptions } from './dns.js';
import type { DnsClient } from './dns-client.js';
import type { DnsFound } from './dns-lookup.js';
import type { Resolver } from './resolver.js';
import { AddressKind, type SlotOptions, slotMaker } from './single-address.js';

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
