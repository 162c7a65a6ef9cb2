import { Attributes } from '../endpoint/attributes.js';
import { endpointConnectionAgeMs } from '../endpoint/connection-age.js';
import { createEndpoint, type Endpoint } from '../endpoint/endpoint.js';
import type { DnsClient } from './dns-client.js';
import type { DnsTarget } from './dns-lookup.js';

/** How an address behind which somebody else picks is used. */
export interface SlotOptions {
  /** Connections kept to it, each with a pick of its own. */
  readonly connections: number;
  /** Mean age at which each is replaced, in ms. */
  readonly connectionAgeMs: number;
}

/**
 * Makes one address into several endpoints. kube-proxy picks a pod at random when a connection opens and never again, so
 * several connections reach several pods, and their short age takes the choice anew. Slots have a uid each: to every
 * stage, picker and pool they are pods like others, and one that hit a bad pod is ejected on its own.
 */
export function slotMaker({ connections, connectionAgeMs }: SlotOptions): (target: DnsTarget) => readonly Endpoint[] {
  // One object for all: equal sets must stay equal from look to look.
  const attributes = Attributes.empty.with(endpointConnectionAgeMs, connectionAgeMs);
  return ({ address, port }) =>
    Array.from({ length: connections }, (_, index) =>
      createEndpoint({ address, port, uid: `slot-${index + 1}`, name: `slot ${index + 1}`, attributes }),
    );
}

/** Whether a set consists of slots. */
export function isSlots(endpoints: readonly Endpoint[]): boolean {
  return endpoints[0]?.attributes.get(endpointConnectionAgeMs) !== undefined;
}

/**
 * Tells whether the one address of a Service is its cluster IP or its only pod. A and AAAA records look the same for
 * both; SRV records of the Service's own name do not: CoreDNS names the Service itself as target for a cluster IP, and
 * a name below it for each pod of a headless Service.
 */
export class AddressKind {
  /** What was found out, for the address it was found out for. */
  #known: { readonly address: string; readonly kind: 'cluster-ip' | 'pod' | 'unknown' } | undefined;

  /** `unknown` where DNS has no SRV records to tell it by. Rejects never. */
  async of(address: string, absolute: string, client: DnsClient): Promise<'cluster-ip' | 'pod' | 'unknown'> {
    if (this.#known?.address === address) return this.#known.kind;
    try {
      const kind = kindOf(await client.resolveSrv(absolute), absolute);
      this.#known = { address, kind };
      return kind;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // "No such records" is an answer; everything else is asked again next time.
      if (code === 'ENODATA' || code === 'ENOTFOUND') this.#known = { address, kind: 'unknown' };
      return 'unknown';
    }
  }
}

function kindOf(
  records: readonly { readonly name: string; readonly port: number }[],
  absolute: string,
): 'cluster-ip' | 'pod' | 'unknown' {
  // Port 0 comes from servers that make up an SRV record for any name.
  const targets = records.filter((record) => record.port !== 0).map((record) => `${record.name.toLowerCase()}.`);
  if (targets.includes(absolute)) return 'cluster-ip';
  return targets.length > 0 && targets.every((target) => target.endsWith(`.${absolute}`)) ? 'pod' : 'unknown';
}
