import { Attributes } from '../endpoint/attributes.js';
import { endpointConnectionAgeMs } from '../endpoint/connection-age.js';
import { createEndpoint, type Endpoint } from '../endpoint/endpoint.js';
import type { DnsClient } from './dns-client.js';
import type { DnsTarget } from './dns-lookup.js';

/** How to use an address behind which another balancer picks. */
export interface SlotOptions {
  /** How many connections the address gets, each of which is picked separately. */
  readonly connections: number;
  /** Mean age at which each of these connections is replaced, in ms. */
  readonly connectionAgeMs: number;
}

/**
 * Turns one address into several endpoints. kube-proxy picks a pod at random once, when a connection opens, so several connections
 * reach several pods, and their short age renews the choice. Each slot has its own uid: stages, pickers and the pool treat slots like
 * pods, and a slot that hit a bad pod is ejected on its own.
 */
export function slotMaker({ connections, connectionAgeMs }: SlotOptions): (target: DnsTarget) => readonly Endpoint[] {
  // The attributes are the same object for all slots and lookups: equal sets must stay equal from lookup to lookup.
  const attributes = Attributes.empty.with(endpointConnectionAgeMs, connectionAgeMs);
  return ({ address, port }) =>
    Array.from({ length: connections }, (_, index) =>
      createEndpoint({ address, port, uid: `slot-${index + 1}`, name: `slot ${index + 1}`, attributes }),
    );
}

/** Whether a set consists of slots: several endpoints made from a Service's single address. */
export function isSlots(endpoints: readonly Endpoint[]): boolean {
  return endpoints[0]?.attributes.get(endpointConnectionAgeMs) !== undefined;
}

/**
 * Tells whether a Service's single address is its cluster IP or its only pod. A and AAAA records look the same for both, but SRV
 * records of the Service's own name do not: for a cluster IP, CoreDNS names the Service itself as the target; for a headless Service,
 * a name below it per pod.
 */
export class AddressKind {
  /** The kind that was found, and the address it applies to. */
  #known: { readonly address: string; readonly kind: 'cluster-ip' | 'pod' | 'unknown' } | undefined;

  /** What kind of address it is; `unknown` if DNS has no SRV records. Never rejects. */
  async of(address: string, absolute: string, client: DnsClient): Promise<'cluster-ip' | 'pod' | 'unknown'> {
    if (this.#known?.address === address) return this.#known.kind;
    try {
      const kind = kindOf(await client.resolveSrv(absolute), absolute);
      this.#known = { address, kind };
      return kind;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // "No such records" is an answer that is kept; after anything else, DNS is queried again next time.
      if (code === 'ENODATA' || code === 'ENOTFOUND') this.#known = { address, kind: 'unknown' };
      return 'unknown';
    }
  }
}

function kindOf(
  records: readonly { readonly name: string; readonly port: number }[],
  absolute: string,
): 'cluster-ip' | 'pod' | 'unknown' {
  // Some servers invent an SRV record with port 0 for any name.
  const targets = records.filter((record) => record.port !== 0).map((record) => `${record.name.toLowerCase()}.`);
  if (targets.includes(absolute)) return 'cluster-ip';
  return targets.length > 0 && targets.every((target) => target.endsWith(`.${absolute}`)) ? 'pod' : 'unknown';
}
