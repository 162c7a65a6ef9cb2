import type { Endpoint } from '../endpoint/endpoint.js';
import type { EndpointEntry, EndpointSet } from '../endpoint/endpoint-set.js';
import { checkKeys, optionError } from '../runtime/check.js';
import type { Complete } from '../runtime/complete.js';
import { described } from '../runtime/described.js';
import { checkedOption, choiceOption, type OptionTable, optionTable } from '../runtime/options.js';
import type { StageFactory } from './stage.js';

/** Options of `topologyHints`. */
export interface TopologyHintsOptions {
  /** The zone this process runs in; undefined or '' switches hints by zone off. @defaultValue none */
  readonly zone?: string | undefined;
  /** The node this process runs on; undefined or '' switches hints by node off. @defaultValue none */
  readonly nodeName?: string | undefined;
  /**
   * What happens to endpoints meant for others: `absent`, no connection, or `standby`, connected but unused. @defaultValue 'absent'
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
 * Follows the topology hints the control plane writes for `trafficDistribution: PreferSameZone` and `PreferSameNode`, as kube-proxy does:
 * the node's own endpoints if every ready endpoint is hinted for some node and one for ours; otherwise the zone's own under the same rule;
 * otherwise all. One ready endpoint without a hint switches that kind off. Where an endpoint runs says nothing about who should use it.
 *
 * @example // zone and node from the downward API, see topologyFromEnv topologyHints({ zone: 'eu-west-1a', nodeName: 'node-7' })
 */
export function topologyHints(options: TopologyHintsOptions = {}): StageFactory {
  const { zone, nodeName, others } = topologyHintsTable.resolve(options);
  return described(() => ({ apply: (set) => applyHints(set, zone, nodeName, others) }), 'topologyHints');
}

/** Where a process runs, from environment variables that its manifest sets through the downward API. */
export interface TopologySource {
  /** The variable that the manifest sets from `metadata.labels['topology.kubernetes.io/zone']`. @defaultValue 'TOPOLOGY_ZONE' */
  readonly zoneVariable?: string | undefined;
  /** The variable that the manifest sets from `spec.nodeName`. @defaultValue 'NODE_NAME' */
  readonly nodeVariable?: string | undefined;
  /** Where the variables are read from. @defaultValue process.env */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/**
 * Reads zone and node for `topologyHints`, once, when called. A missing or empty variable switches that kind of hint off.
 *
 * @example stages: [topologyHints(topologyFromEnv())]
 */
export function topologyFromEnv(source: TopologySource = {}): {
  readonly zone: string | undefined;
  readonly nodeName: string | undefined;
} {
  checkKeys('topologyFromEnv', source, ['zoneVariable', 'nodeVariable', 'env']);
  const { zoneVariable = 'TOPOLOGY_ZONE', nodeVariable = 'NODE_NAME', env = process.env } = source;
  return { zone: env[zoneVariable] || undefined, nodeName: env[nodeVariable] || undefined };
}

/** Reads an endpoint's topology hints of one kind, by zone or by node. */
type HintsOf = (endpoint: Endpoint) => readonly string[];

const byNode: HintsOf = (endpoint) => endpoint.hintNodes;
const byZone: HintsOf = (endpoint) => endpoint.hintZones;

function applyHints(set: EndpointSet, zone: string, nodeName: string, others: 'absent' | 'standby'): EndpointSet {
  // The fallback to terminating endpoints ignores topology hints: without a ready endpoint nothing is filtered.
  const ready = set.entries.filter(({ endpoint }) => endpoint.conditions.ready);
  const [hintsOf, own] = holds(ready, byNode, nodeName) ? [byNode, nodeName] : [byZone, zone];
  if (!holds(ready, hintsOf, own)) return set;
  const ours = ({ endpoint }: EndpointEntry): boolean => !endpoint.conditions.ready || hintsOf(endpoint).includes(own);
  if (others === 'absent') return set.filter(ours);
  return set.map((entry) => (ours(entry) || entry.weight === 0 ? entry : { ...entry, weight: 0 }));
}

/** Whether topology hints of this kind apply: all ready endpoints have one, and one of them names our zone or node. */
function holds(ready: readonly EndpointEntry[], hintsOf: HintsOf, own: string): boolean {
  if (own === '' || ready.length === 0) return false;
  let named = false;
  for (const { endpoint } of ready) {
    const hints = hintsOf(endpoint);
    if (hints.length === 0) return false;
    named ||= hints.includes(own);
  }
  return named;
}
