import { isIPv6 } from 'node:net';
import type { DnsAnswer, DnsRecord } from './dns-server-wire.js';
import { canonicalName, negative } from './dns-server-zone.js';

/** A pod behind a Service, as far as DNS sees it. */
export interface DnsPod {
  /** The pod's addresses: one, or one per family. */
  readonly address: string | readonly string[];
  /** Whether the pod is ready. A terminating pod is not ready, even while it still serves. @defaultValue true */
  readonly ready?: boolean;
  /** The pod's host name, as a StatefulSet sets it; CoreDNS names a pod without one after its address (`10-0-0-1`). */
  readonly hostname?: string;
}

/** A Service as CoreDNS's `kubernetes` plugin sees it. */
export interface DnsService {
  /** The Service's namespace, the middle part of its DNS name. */
  readonly namespace: string;
  /** The Service's name, the first part of its DNS name. */
  readonly name: string;
  /** The pods' ports for a headless Service, otherwise the Service's ports. @defaultValue [] */
  readonly ports?: readonly { readonly name?: string; readonly port: number; readonly protocol?: 'TCP' | 'UDP' }[];
  /** The Service's own addresses, one per family; absent for a headless Service. */
  readonly clusterIPs?: readonly string[];
  /** The name for which an ExternalName Service is an alias; its only record is then a CNAME. */
  readonly externalName?: string;
  /** The Service's pods, which a headless Service has as its records. @defaultValue [] */
  readonly pods?: readonly DnsPod[];
  /** Whether pods that are not ready are in the answer too. @defaultValue false */
  readonly publishNotReadyAddresses?: boolean;
}

interface Target {
  readonly address: string;
  readonly name: string;
}

/**
 * Answers queries like CoreDNS's `kubernetes` plugin. A headless Service has one record per ready pod, and is NXDOMAIN without any; any
 * other Service has its cluster IP whatever its pods do, SRV records for named ports (with the pods as targets, or the Service itself), and
 * NODATA for the other address family. A namespace's own name has no records, or is unknown if the namespace does not exist.
 */
export class KubernetesZone {
  readonly #domain: string;
  /** How long answers are valid, in seconds, including the answer "no such name". */
  ttl: number;
  /** Existing namespaces, in addition to those of the zone's Services. */
  readonly namespaces: Set<string> = new Set(['default', 'kube-system']);
  readonly #services = new Map<string, DnsService>();

  constructor(domain: string, ttl: number) {
    this.#domain = canonicalName(domain);
    this.ttl = ttl;
  }

  /** Adds or replaces a Service. */
  set(service: DnsService): void {
    this.#services.set(`${service.name}.${service.namespace}`, service);
  }

  /** Removes a Service; its name is NXDOMAIN from now on. */
  delete(namespace: string, name: string): void {
    this.#services.delete(`${name}.${namespace}`);
  }

  /** Returns the absolute DNS name of a Service. */
  nameOf(service: Pick<DnsService, 'namespace' | 'name'>): string {
    return `${service.name}.${service.namespace}.svc.${this.#domain}`;
  }

  /** Answers a query; undefined for a name outside the cluster domain. */
  answer(question: string, type: string): DnsAnswer | undefined {
    const name = canonicalName(question);
    if (name === this.#domain) return this.#no('NOERROR');
    if (!name.endsWith(`.${this.#domain}`)) return undefined;
    const labels = name.slice(0, -this.#domain.length - 1).split('.');
    if (labels.pop() !== 'svc') return this.#no('NXDOMAIN');
    const namespace = labels.pop();
    const serviceName = labels.pop();
    if (namespace === undefined) return this.#no('NOERROR');
    if (serviceName === undefined) return this.#no(this.#hasNamespace(namespace) ? 'NOERROR' : 'NXDOMAIN');
    const service = this.#services.get(`${serviceName}.${namespace}`);
    if (service === undefined) return this.#no('NXDOMAIN');
    if (service.externalName !== undefined) {
      if (labels.length > 0) return this.#no('NXDOMAIN');
      const target = canonicalName(service.externalName);
      return { rcode: 'NOERROR', answers: [{ name, ttl: this.ttl, type: 'CNAME', target }] };
    }
    const [protocol, port] = [labels.at(-1), labels.at(-2)];
    if (labels.length === 2 && port?.startsWith('_') && protocol?.startsWith('_')) {
      return this.#records(name, type, service, undefined, { name: port.slice(1), protocol: protocol.slice(1) });
    }
    return labels.length < 2 ? this.#records(name, type, service, labels[0], undefined) : this.#no('NXDOMAIN');
  }

  #hasNamespace(name: string): boolean {
    return this.namespaces.has(name) || [...this.#services.values()].some(({ namespace }) => namespace === name);
  }

  #records(
    name: string,
    type: string,
    service: DnsService,
    podName: string | undefined,
    srv: { readonly name: string; readonly protocol: string } | undefined,
  ): DnsAnswer {
    const serviceName = this.nameOf(service);
    const targets: Target[] =
      service.clusterIPs !== undefined && podName === undefined
        ? service.clusterIPs.map((address) => ({ address, name: serviceName }))
        : readyPods(service)
            .map((pod) => ({ address: pod.address, name: `${pod.name}.${serviceName}` }))
            .filter((target) => podName === undefined || target.name === `${podName}.${serviceName}`);
    const ports = (service.ports ?? []).filter(
      (port) =>
        srv === undefined ||
        ((port.name ?? '').toLowerCase() === srv.name && (port.protocol ?? 'TCP').toLowerCase() === srv.protocol),
    );
    // To CoreDNS, a Service that exists but has no records is an unknown name, not an empty one.
    if (targets.length === 0 || (srv !== undefined && ports.length === 0)) return this.#no('NXDOMAIN');
    if (type === 'SRV') return this.#srv(name, targets, ports);
    const answers = targets
      .map((target) => this.#address(name, target.address))
      .filter((record) => record.type === type);
    return answers.length === 0 ? this.#no('NOERROR') : { rcode: 'NOERROR', answers };
  }

  #srv(name: string, targets: readonly Target[], ports: readonly { readonly port: number }[]): DnsAnswer {
    const weight = Math.max(1, Math.floor(100 / (targets.length * ports.length)));
    const answers: DnsRecord[] = [];
    // Two addresses under one name are one SRV record with two addresses.
    const seen = new Set<string>();
    for (const { name: target } of targets) {
      for (const { port } of ports) {
        if (seen.has(`${target}:${port}`)) continue;
        seen.add(`${target}:${port}`);
        answers.push({ name, ttl: this.ttl, type: 'SRV', priority: 0, weight, port, target });
      }
    }
    if (answers.length === 0) return this.#no('NOERROR');
    return {
      rcode: 'NOERROR',
      answers,
      additional: targets.map((target) => this.#address(target.name, target.address)),
    };
  }

  #address(name: string, address: string): DnsRecord {
    return { name, ttl: this.ttl, type: isIPv6(address) ? 'AAAA' : 'A', address };
  }

  #no(rcode: 'NOERROR' | 'NXDOMAIN'): DnsAnswer {
    return negative(rcode, this.#domain, this.ttl);
  }
}

function readyPods(service: DnsService): Target[] {
  const pods = (service.pods ?? []).filter((pod) => (pod.ready ?? true) || service.publishNotReadyAddresses);
  return pods.flatMap((pod) => {
    const addresses = typeof pod.address === 'string' ? [pod.address] : pod.address;
    return addresses.map((address) => ({ address, name: pod.hostname ?? address.replaceAll(/[.:]/g, '-') }));
  });
}
