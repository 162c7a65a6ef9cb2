export type { Asked } from '../kit/index.js';
export type { AskServer, ReplicaLagOptions } from './checks/replica-lag.js';
export type { Hosts } from './cluster/hosts.js';
export type { CheckedOutConnection, CheckoutOptions, ConnectionCallback, QueryCallback } from './cluster/namespace.js';
export {
  createPoolCluster,
  type PoolCluster,
  type PoolClusterEvent,
  type PoolClusterOptions,
  type ReadyOptions,
} from './cluster/pool-cluster.js';
export type { ServiceSelector } from './cluster/route.js';
export type { RunningStatement, StatementEvent, StatementListener } from './cluster/running-statement.js';
export type { ServiceOptions } from './cluster/service.js';
export type { StatementOptions } from './cluster/statement.js';
export { followService, type ServiceFollower } from './follow-service/follow-service.js';
export { type FollowServiceOptions, followDefaults } from './follow-service/options.js';
export type { AnyPoolCluster } from './follow-service/user-cluster.js';
export type { Mysql2ConnectionOptions } from './options.js';
export type { ServerOfConnection } from './server/mysql2-objects.js';
export { type Mysql2TransportOptions, mysql2Transport } from './server/transport.js';
