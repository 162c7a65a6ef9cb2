import { type AttributeKey, attributeKey } from './attributes.js';

/**
 * How old a connection to this endpoint may become, in ms on average, ± 50 %, where that is less than the pool's own
 * `maxConnectionAgeMs`. For addresses behind which somebody else picks per connection, such as a cluster IP.
 */
export const endpointConnectionAgeMs: AttributeKey<number> = attributeKey('connection age');
