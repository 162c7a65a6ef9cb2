export type { AddressFamily } from '../host-families.js';
export type { ApiCredentials } from './api/explicit-access.js';
export { type InClusterOptions, inClusterAvailable, inClusterNamespace } from './api/in-cluster.js';
export type { KubeConfigLike } from './api/kube-config.js';
export { type EndpointSlicesOptions, endpointSlices } from './endpoint-slices.js';
