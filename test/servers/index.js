/**
 * A Kubernetes API server and a DNS server with real sockets, for our tests, the examples and the playground. They run on plain
 * Node, without a build; `index.d.ts` has their types.
 */
export { answerList, bookmarkLine, eventLine, resetSocket } from './api-reads.js';
export { createApiServer } from './api-server.js';
export { ObjectStore } from './api-store.js';
export { createCertificate } from './certificate.js';
export { createDnsServer } from './dns-server.js';
export { ServiceController } from './service-controller.js';
