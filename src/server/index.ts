export type { CallContext, ServedRequest } from '../propagation/call-context.js';
export { type Backend, createBackend } from './backend.js';
export type { FastifyPlugin } from './fastify.js';
export type { BackendOptions, GrpcRequest, IncomingRequest, ReportOptions } from './options.js';
export type { ReportedLoad } from './report/orca-message.js';
export { gracefulShutdown, type Shutdown, type ShutdownOptions } from './shutdown/shutdown.js';
