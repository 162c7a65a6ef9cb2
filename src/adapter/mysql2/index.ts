export type { Asked } from '../kit/index.js';
export type { AnyPoolCluster } from './cluster-face.js';
export { type FollowServiceOptions, followDefaults } from './follow-options.js';
export { followService, type ServiceFollower } from './follow-service.js';
export type { Hosts } from './hosts.js';
export type { ServerOfConnection } from './name-server.js';
export type { Mysql2ConnectionOptions } from './options.js';
export {
  createPoolCluster,
  type PoolCluster,
  type PoolClusterEvent,
  type PoolClusterOptions,
  type ReadyOptions,
} from './pool-cluster.js';
export type { CheckedOutConnection, CheckoutOptions, ConnectionCallback, QueryCallback } from './queryable.js';
export type { AskServer, ReplicaLagOptions } from './replica-lag.js';
export type { ServiceSelector } from './route.js';
export type { RunningStatement, StatementEvent, StatementListener } from './running-statement.js';
export type { ServiceOptions } from './service.js';
export type { StatementOptions } from './statement.js';
export { type Mysql2TransportOptions, mysql2Transport } from './transport.js';
