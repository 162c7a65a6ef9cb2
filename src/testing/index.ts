export {
  createDnsServer,
  type DnsQueryEntry,
  type DnsServer,
  type DnsServerOptions,
} from './dns-server.js';
export type { DnsFault, DnsFaultScope } from './dns-server-faults.js';
export type { DnsPod, DnsService, KubernetesZone } from './dns-server-kubernetes.js';
export type { DnsNameRecords, DnsZone } from './dns-server-zone.js';
export { FakeClock, settle } from './fake-clock.js';
export { FakeResolver } from './fake-resolver.js';
export { type ConnectBehaviour, FakeConnection, FakeTransport } from './fake-transport.js';
export { seededRng } from './seeded-rng.js';
