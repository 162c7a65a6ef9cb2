// Imported first, because it explains what is wrong with a @grpc/grpc-js that cannot even be loaded.
import './check-version.js';

export type { CallKey, ChannelBalancer, GrowingConnections, GrpcOptions } from './options.js';
export { serviceChannelOptions, serviceTarget } from './target.js';
