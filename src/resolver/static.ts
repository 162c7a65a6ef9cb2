import { createEndpoint, type Endpoint, type EndpointInit } from '../endpoint/endpoint.js';
import { checkKeys, optionError } from '../runtime/check.js';
import type { Resolver } from './resolver.js';

const entryNames: readonly (keyof EndpointInit)[] = [
  'address',
  'port',
  'otherAddress',
  'uid',
  'name',
  'zone',
  'nodeName',
  'hintZones',
  'hintNodes',
  'conditions',
  'weight',
  'attributes',
];
/** How many endpoints are listed in the resolver's name, which people should be able to read. */
const NAMED = 3;

/**
 * Creates a resolver with a fixed list of endpoints.
 *
 * @param endpoints At least one, each `{ address, port }` and any other fields of an endpoint, such as `weight` or `zone`.
 * @returns A resolver that publishes the list once. Throws EVENKEEL_OPTION for an empty list or an invalid entry.
 * @example staticEndpoints([{ address: '10.0.0.1', port: 8080 }, { address: '10.0.0.2', port: 8080, weight: 2 }])
 */
export function staticEndpoints(endpoints: readonly EndpointInit[]): Resolver {
  if (!Array.isArray(endpoints) || endpoints.length === 0) {
    throw optionError('endpoints', 'a list of at least one { address, port }', endpoints);
  }
  const fixed: readonly Endpoint[] = Object.freeze(
    endpoints.map((entry, index) => {
      checkKeys(`endpoints[${index}]`, entry, entryNames);
      return createEndpoint(entry);
    }),
  );
  const shown = fixed.slice(0, NAMED).map((endpoint) => endpoint.key);
  if (fixed.length > NAMED) shown.push(`… (${fixed.length})`);
  return {
    name: `static ${shown.join(',')}`,
    watch(listener, { clock }) {
      let closed = false;
      clock.defer(() => {
        if (!closed) listener.update(fixed);
      });
      return {
        refresh() {},
        close() {
          closed = true;
        },
      };
    },
  };
}
