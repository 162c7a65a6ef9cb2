// Imported first, because it explains what is wrong with a mysql2 that cannot even be loaded.
import './check-version.js';

export type { PerEndpoint } from '../kit/index.js';
export type { CheckedOutConnection, CheckoutOptions, ConnectionCallback, QueryCallback } from './cluster/namespace.js';
export {
  createPoolCluster,
  type PoolCluster,
  type PoolClusterEvent,
  type PoolClusterOptions,
} from './cluster/pool-cluster.js';
export type { ServiceSelector } from './cluster/route.js';
export type { ServiceOptions } from './cluster/service.js';
export type { RunningStatement, StatementEvent, StatementListener, StatementOptions } from './cluster/statement.js';
export type { Mysql2ConnectionOptions } from './options.js';
export type { AskServer, ReplicaLagOptions } from './roles.js';
export type { ServerOfConnection } from './server/connection-methods.js';
