import { checkKeys } from './check.js';
import { ownProperties } from './own-properties.js';

/** Which environment variables say where a process runs. Its manifest sets them through the downward API. */
export interface TopologySource {
  /**
   * The name of the variable that the manifest sets from `metadata.labels['topology.kubernetes.io/zone']`. @defaultValue 'TOPOLOGY_ZONE'
   */
  readonly zoneVariable?: string | undefined;
  /** The name of the variable that the manifest sets from `spec.nodeName`. @defaultValue 'NODE_NAME' */
  readonly nodeVariable?: string | undefined;
  /** The environment from which the variables are read. @defaultValue process.env */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/**
 * Reads zone and node for `topologyHints` from environment variables, once, when it is called. If a variable is missing or empty, hints of
 * that kind are ignored.
 *
 * @example stages: [topologyHints(topologyFromEnv())]
 */
export function topologyFromEnv(source: TopologySource = {}): {
  readonly zone: string | undefined;
  readonly nodeName: string | undefined;
} {
  checkKeys('topologyFromEnv', source, ['zoneVariable', 'nodeVariable', 'env']);
  const own = ownProperties(source);
  const { zoneVariable = 'TOPOLOGY_ZONE', nodeVariable = 'NODE_NAME' } = own;
  const env = ownProperties(own.env ?? process.env);
  return { zone: env[zoneVariable] || undefined, nodeName: env[nodeVariable] || undefined };
}
