import type { Endpoint } from './endpoint.js';

/** Returns an endpoint's topology hints of one kind, by zone or by node. */
type HintsOf = (endpoint: Endpoint) => readonly string[];

const byNode: HintsOf = (endpoint) => endpoint.hintNodes;
const byZone: HintsOf = (endpoint) => endpoint.hintZones;

/**
 * Returns which endpoints are meant for a client in this zone and on this node ('' = unknown), by kube-proxy's rules; undefined if hints do
 * not apply. They apply if every ready endpoint has a hint of one kind and one of them names the client's place (H1).
 */
export function hintedFor(
  ready: readonly Endpoint[],
  zone: string,
  nodeName: string,
): ((endpoint: Endpoint) => boolean) | undefined {
  if (holds(ready, byNode, nodeName)) return (endpoint) => byNode(endpoint).includes(nodeName);
  if (holds(ready, byZone, zone)) return (endpoint) => byZone(endpoint).includes(zone);
  return undefined;
}

/** Whether hints of one kind apply. */
function holds(ready: readonly Endpoint[], hintsOf: HintsOf, own: string): boolean {
  if (own === '' || ready.length === 0) return false;
  let named = false;
  for (const endpoint of ready) {
    const hints = hintsOf(endpoint);
    if (hints.length === 0) return false;
    named ||= hints.includes(own);
  }
  return named;
}
