export type { AddressFamily } from './endpoint-slice.js';
export { type EndpointSlicesOptions, endpointSlices } from './endpoint-slices.js';
export type { ApiCredentials } from './explicit-access.js';
export { type InClusterOptions, inClusterAvailable, inClusterNamespace } from './in-cluster.js';
export type { KubeConfigLike, KubeConfigOptions } from './kube-config.js';
