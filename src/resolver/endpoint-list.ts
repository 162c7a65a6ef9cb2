import type { Endpoint } from '../endpoint/endpoint.js';

/** Sorts endpoints by key and keeps one for each key. DNS and the API server return them in any order and sometimes twice. */
export function sortedEndpoints(endpoints: readonly Endpoint[]): readonly Endpoint[] {
  const byKey = new Map<string, Endpoint>();
  for (const endpoint of endpoints) if (!byKey.has(endpoint.key)) byKey.set(endpoint.key, endpoint);
  return Object.freeze([...byKey.values()].sort((a, b) => (a.key < b.key ? -1 : 1)));
}

/** Whether two sorted lists of endpoints are equal. If so, the second need not be published. */
export function sameEndpoints(a: readonly Endpoint[], b: readonly Endpoint[]): boolean {
  return a.length === b.length && a.every((endpoint, index) => sameEndpoint(endpoint, b[index] as Endpoint));
}

/** Whether two endpoints are equal in all their fields. */
function sameEndpoint(a: Endpoint, b: Endpoint): boolean {
  if (a === b) return true;
  return (
    a.key === b.key &&
    a.address === b.address &&
    a.otherAddress === b.otherAddress &&
    a.weight === b.weight &&
    a.attributes.equals(b.attributes) &&
    sameDescription(a, b)
  );
}

/** What a Service says about one of its pods. */
type Description = Pick<Endpoint, 'name' | 'zone' | 'nodeName' | 'conditions' | 'hintZones' | 'hintNodes'>;

/** Whether two descriptions of a pod are equal. */
export function sameDescription(a: Description, b: Description): boolean {
  return (
    a.name === b.name &&
    a.zone === b.zone &&
    a.nodeName === b.nodeName &&
    a.conditions.ready === b.conditions.ready &&
    a.conditions.serving === b.conditions.serving &&
    a.conditions.terminating === b.conditions.terminating &&
    sameTexts(a.hintZones, b.hintZones) &&
    sameTexts(a.hintNodes, b.hintNodes)
  );
}

function sameTexts(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((text, index) => text === b[index]);
}
