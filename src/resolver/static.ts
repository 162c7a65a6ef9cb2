import { createEndpoint, type Endpoint, type EndpointInit } from '../endpoint/endpoint.js';
import { optionError } from '../runtime/check.js';
import type { Resolver } from './resolver.js';

/**
 * A fixed list of endpoints.
 *
 * @param endpoints At least one, each `{ address, port }` with whatever else is known (weight, zone …).
 * @returns A resolver that publishes the list once. Throws EVENKEEL_OPTION for an empty list or a bad entry.
 * @example staticEndpoints([{ address: '10.0.0.1', port: 8080 }, { address: '10.0.0.2', port: 8080, weight: 2 }])
 */
export function staticEndpoints(endpoints: readonly EndpointInit[]): Resolver {
  if (!Array.isArray(endpoints) || endpoints.length === 0) {
    throw optionError('endpoints', 'a list of at least one { address, port }', endpoints);
  }
  const fixed: readonly Endpoint[] = Object.freeze(endpoints.map(createEndpoint));
  return {
    name: `static ${fixed.map((endpoint) => endpoint.key).join(',')}`,
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
