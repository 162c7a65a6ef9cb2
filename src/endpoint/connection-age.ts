import { type AttributeKey, attributeKey } from './attributes.js';

/**
 * Mean maximum age of a connection to this endpoint, in ms, ± 50 %, if shorter than the pool's `maxConnectionAgeMs`. For addresses
 * with another balancer behind them that picks per connection, such as a cluster IP.
 */
export const endpointConnectionAgeMs: AttributeKey<number> = attributeKey('connection age');
