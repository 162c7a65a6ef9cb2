export type { CallContext, ServedRequest } from '../propagation/call-context.js';
export type { FastifyPlugin } from './fastify.js';
export type { GrpcRequest, IncomingRequest, PodOptions, ReportOptions } from './options.js';
export { createPod, type Pod } from './pod.js';
export type { ReportedLoad } from './reported-load.js';
export { gracefulShutdown, type Shutdown, type ShutdownOptions, shutdownDefaults } from './shutdown.js';
