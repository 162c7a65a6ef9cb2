import { Attributes } from '../endpoint/attributes.js';
import { endpointConnectionAgeMs } from '../endpoint/connection-age.js';
import { createEndpoint, type Endpoint } from '../endpoint/endpoint.js';
import type { DnsClient } from './dns-client.js';
import type { DnsTarget } from './dns-lookup.js';

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
