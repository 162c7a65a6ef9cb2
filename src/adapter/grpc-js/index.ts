export type { CallKey, ChannelBalancer, GrpcOptions } from './options.js';
export { channelOptions, target } from './target.js';
