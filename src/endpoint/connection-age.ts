import { type AttributeKey, attributeKey } from './attributes.js';

/**
 * The mean maximum age of connections to this endpoint, in ms, ± 50 %, which applies if it is shorter than the pool's `maxConnectionAgeMs`.
 * For addresses such as a cluster IP, behind which another balancer picks a pod for each connection.
 */
export const endpointConnectionAgeMs: AttributeKey<number> = attributeKey('connection age');
