import { type AttributeKey, attributeKey } from './attributes.js';

/**
 * The protocol that an endpoint's port speaks, according to the `appProtocol` of its EndpointSlice; absent if the Service does not say.
 */
export const endpointAppProtocol: AttributeKey<string> = attributeKey('app protocol');

/** Kubernetes' name for HTTP/2 in the clear with prior knowledge (KEP-3726). */
export const H2C = 'kubernetes.io/h2c';
