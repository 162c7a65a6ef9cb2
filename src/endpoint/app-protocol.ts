import { type AttributeKey, attributeKey } from './attributes.js';

/** What the port of an endpoint speaks, by the `appProtocol` of its EndpointSlice; missing where nobody said. */
export const endpointAppProtocol: AttributeKey<string> = attributeKey('app protocol');

/** HTTP/2 in the clear, without asking first. Kubernetes' own name for it (KEP-3726). */
export const H2C = 'kubernetes.io/h2c';
