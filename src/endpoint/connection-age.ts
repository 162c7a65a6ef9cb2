import { type AttributeKey, attributeKey } from './attributes.js';

/**
 * Mean maximum age of a connection to this endpoint, in ms, ± 50 %, if that is less than the pool's `maxConnectionAgeMs`. For
 * addresses behind which something else picks per connection, such as a cluster IP.
 */
export const endpointConnectionAgeMs: AttributeKey<number> = attributeKey('connection age');
