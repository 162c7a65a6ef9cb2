export { channelOptions, target } from './channel.js';
export type { ChannelBalancer } from './channel-balancer.js';
export type { CallKey, GrpcOptions } from './options.js';
