export {
  type ApiServer,
  type Collection,
  createApiServer,
  type StartOptions,
} from './api-server.js';
export type { Grant, Tokens, Verb } from './api-server-access.js';
export { type Certificate, type CertificateOptions, createCertificate } from './api-server-certificate.js';
export type { Fault, FaultOptions } from './api-server-fault.js';
export type {
  EndpointSliceObject,
  KubernetesObject,
  ObjectMetadata,
  ServiceObject,
  SliceEndpoint,
  SlicePort,
} from './api-server-objects.js';
export type { ApiServerOptions } from './api-server-options.js';
export type { RecordedRequest } from './api-server-record.js';
export type { Pod, ServiceController, ServiceOptions, ServicePort } from './api-server-service.js';
export type { StoreBackup } from './api-server-store.js';
export type { Disturbance, Mangle } from './api-server-watch.js';
export {
  createDnsServer,
  type DnsServer,
  type DnsServerOptions,
} from './dns-server.js';
export type { DnsQueryEntry } from './dns-server-counters.js';
export type { DnsFault, DnsFaultScope } from './dns-server-faults.js';
export type { DnsPod, DnsService, KubernetesZone } from './dns-server-kubernetes.js';
export type { DnsNameRecords, DnsZone } from './dns-server-zone.js';
