import { type AttributeKey, attributeKey } from './attributes.js';

/** What the port of an endpoint speaks, according to the `appProtocol` of its EndpointSlice; absent if the Service does not say. */
export const endpointAppProtocol: AttributeKey<string> = attributeKey('app protocol');

/** HTTP/2 in the clear, without asking first. Kubernetes' own name for it (KEP-3726). */
export const H2C = 'kubernetes.io/h2c';
