// Imported first, because it explains what is wrong with a mysql2 that cannot even be loaded.
import './check-version.js';

export type { PerEndpoint } from '../kit/index.js';
export type { ServerOfConnection } from './connection-methods.js';
export type { CheckedOutConnection, CheckoutOptions, ConnectionCallback, QueryCallback } from './namespace.js';
export type { Mysql2ConnectionOptions, ServiceOptions } from './options.js';
export {
  createPoolCluster,
  type PoolCluster,
  type PoolClusterEvent,
  type PoolClusterOptions,
} from './pool-cluster.js';
export type { AskServer, ReplicaLagOptions } from './roles.js';
export type { ServiceSelector } from './route.js';
export type { RunningStatement, StatementEvent, StatementListener, StatementOptions } from './statement.js';
