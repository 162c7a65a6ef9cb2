import type { EndpointEntry, EndpointSet } from '../endpoint/endpoint-set.js';
import { hintedFor } from '../endpoint/hinted.js';
import { optionError } from '../runtime/check.js';
import type { Complete } from '../runtime/complete.js';
import { described } from '../runtime/described.js';
import { checkedOption, choiceOption, type OptionTable, optionTable } from '../runtime/options.js';
import type { StageFactory } from './stage.js';

/**
 * Options of `topologyHints`: where this process runs, and what happens to endpoints meant for others. Invalid options throw
 * EVENKEEL_OPTION.
 */
export interface TopologyHintsOptions {
  /** The zone in which this process runs; undefined or '' = hints by zone are ignored. @defaultValue none */
  readonly zone?: string | undefined;
  /** The name of the node on which this process runs; undefined or '' = hints by node are ignored. @defaultValue none */
  readonly nodeName?: string | undefined;
  /**
   * What happens to endpoints that are meant for clients elsewhere: `absent` = they get no connection, `standby` = they are connected but
   * not used. @defaultValue 'absent'
   */
  readonly others?: 'absent' | 'standby' | undefined;
}

const nameOption = checkedOption('', (name, value) => {
  if (typeof value !== 'string') throw optionError(name, 'a string', value);
  return value;
});

export const topologyHintsTable: OptionTable<Complete<TopologyHintsOptions>> = optionTable('topologyHints', {
  zone: nameOption,
  nodeName: nameOption,
  others: choiceOption('absent', ['absent', 'standby']),
});

/**
 * Follows the topology hints that the control plane writes for `trafficDistribution: PreferSameZone` and `PreferSameNode`, as kube-proxy
 * does. If every ready endpoint has a hint by node and one names this node, the endpoints hinted for this node are used; otherwise those of
 * the zone, by the same rule; otherwise all. One ready endpoint without a hint of a kind makes that kind of hint void. Where an endpoint
 * itself runs says nothing about who should use it.
 *
 * @example // zone and node from the downward API, see topologyFromEnv topologyHints({ zone: 'eu-west-1a', nodeName: 'node-7' })
 */
export function topologyHints(options: TopologyHintsOptions = {}): StageFactory {
  const { zone, nodeName, others } = topologyHintsTable.resolve(options);
  return described(() => ({ apply: (set) => applyHints(set, zone, nodeName, others) }), 'topologyHints');
}

function applyHints(set: EndpointSet, zone: string, nodeName: string, others: 'absent' | 'standby'): EndpointSet {
  // If there is no ready endpoint, terminating ones are used whatever their hints say, as kube-proxy does.
  const ready = set.entries.map(({ endpoint }) => endpoint).filter(({ conditions }) => conditions.ready);
  const isHinted = hintedFor(ready, zone, nodeName);
  if (isHinted === undefined) return set;
  const ours = ({ endpoint }: EndpointEntry): boolean => !endpoint.conditions.ready || isHinted(endpoint);
  if (others === 'absent') return set.filter(ours);
  return set.map((entry) => (ours(entry) || entry.weight === 0 ? entry : { ...entry, weight: 0 }));
}
