export { channelOptions, target } from './channel.js';
export type { ChannelBalancer } from './channel-balancer.js';
export type { GrpcOptions, HashKey } from './options.js';
