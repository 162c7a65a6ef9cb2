import type { Metric } from './metric.js';

/** The names of metrics that OpenTelemetry or gRPC define, and that evenkeel can report too. */
export type ConventionMetricName =
  | 'http.client.request.duration'
  | 'http.client.open_connections'
  | 'http.client.active_requests'
  | 'grpc.client.call.duration'
  | 'grpc.client.attempt.started'
  | 'grpc.client.attempt.duration'
  | 'grpc.subchannel.connection_attempts_succeeded'
  | 'grpc.subchannel.connection_attempts_failed'
  | 'grpc.subchannel.disconnections'
  | 'grpc.subchannel.open_connections'
  | 'rpc.client.call.duration'
  | 'db.client.operation.duration'
  | 'db.client.connection.count'
  | 'db.client.connection.pending_requests';

/** The metrics that OpenTelemetry or gRPC define, by name. */
export const conventionMetrics: Readonly<Record<ConventionMetricName, Metric>> = Object.freeze({
  'http.client.request.duration': {
    kind: 'histogram',
    unit: 's',
    description: 'Duration of HTTP client requests',
    convention: 'http',
    attributes: ['http.request.method', 'http.response.status_code', 'error.type'],
  },
  'http.client.open_connections': {
    kind: 'gauge',
    additive: true,
    unit: '{connection}',
    description: 'Number of outbound HTTP connections that are currently active or idle',
    convention: 'http',
    attributes: ['http.connection.state'],
  },
  'http.client.active_requests': {
    kind: 'gauge',
    additive: true,
    unit: '{request}',
    description: 'Number of active HTTP requests',
    convention: 'http',
  },
  'grpc.client.call.duration': {
    kind: 'histogram',
    unit: 's',
    description: 'Time to complete an RPC, waiting and all attempts included',
    convention: 'grpc',
    attributes: ['grpc.method', 'grpc.status'],
  },
  'grpc.client.attempt.started': {
    kind: 'counter',
    unit: '{attempt}',
    description: 'Number of RPC attempts started, including those that have not completed',
    convention: 'grpc',
    attributes: ['grpc.method'],
  },
  'grpc.client.attempt.duration': {
    kind: 'histogram',
    unit: 's',
    description: 'Time to complete an RPC attempt, from the pick on',
    convention: 'grpc',
    attributes: ['grpc.method', 'grpc.status'],
  },
  'grpc.subchannel.connection_attempts_succeeded': {
    kind: 'counter',
    unit: '{attempt}',
    description: 'Number of successful connection attempts',
    convention: 'grpc',
  },
  'grpc.subchannel.connection_attempts_failed': {
    kind: 'counter',
    unit: '{attempt}',
    description: 'Number of failed connection attempts',
    convention: 'grpc',
  },
  'grpc.subchannel.disconnections': {
    kind: 'counter',
    unit: '{disconnection}',
    description: 'Number of times a connection ended',
    convention: 'grpc',
  },
  'grpc.subchannel.open_connections': {
    kind: 'gauge',
    additive: true,
    unit: '{connection}',
    description: 'Number of open connections',
    convention: 'grpc',
  },
  'rpc.client.call.duration': {
    kind: 'histogram',
    unit: 's',
    description: 'Duration of an outgoing RPC, waiting and all attempts included',
    convention: 'rpc',
    attributes: ['rpc.method', 'rpc.response.status_code', 'error.type'],
  },
  'db.client.operation.duration': {
    kind: 'histogram',
    unit: 's',
    description: 'Duration of database client operations',
    convention: 'db',
    attributes: ['db.response.status_code', 'error.type'],
  },
  'db.client.connection.count': {
    kind: 'gauge',
    additive: true,
    unit: '{connection}',
    description: 'Number of connections that are currently in the state of the attribute',
    convention: 'db',
    attributes: ['db.client.connection.pool.name', 'db.client.connection.state'],
  },
  'db.client.connection.pending_requests': {
    kind: 'gauge',
    additive: true,
    unit: '{request}',
    description: 'Number of current pending requests for an open connection',
    convention: 'db',
    attributes: ['db.client.connection.pool.name'],
  },
});
