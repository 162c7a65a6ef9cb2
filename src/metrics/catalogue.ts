import type { Metric } from './metric.js';

const metrics = {
  'evenkeel.attempt.duration': {
    kind: 'histogram',
    unit: 's',
    description: 'Time from when an attempt got its endpoint until it ended',
    attributes: ['evenkeel.outcome'],
  },
  'evenkeel.wait.duration': {
    kind: 'histogram',
    unit: 's',
    description: 'Time calls waited for an endpoint; calls that did not wait are not in it',
    attributes: ['evenkeel.served'],
  },
  'evenkeel.calls': { kind: 'counter', unit: '{call}', description: 'Calls started' },
  'evenkeel.calls.in_flight': { kind: 'gauge', unit: '{call}', description: 'Calls running on endpoints' },
  'evenkeel.calls.waiting': { kind: 'gauge', unit: '{call}', description: 'Calls waiting for an endpoint' },
  'evenkeel.calls.refused': {
    kind: 'counter',
    unit: '{call}',
    description: 'Attempts that got no endpoint, those shed included',
  },
  'evenkeel.calls.shed': { kind: 'counter', unit: '{call}', description: 'Calls turned away because of the limit' },
  'evenkeel.picks': { kind: 'counter', unit: '{attempt}', description: 'Picks of an endpoint' },
  'evenkeel.retries': {
    kind: 'counter',
    unit: '{attempt}',
    description: 'Attempts to be followed by another',
    attributes: ['evenkeel.reason'],
  },
  'evenkeel.hedges': { kind: 'counter', unit: '{attempt}', description: 'Attempts started beside a slow one' },
  'evenkeel.hedges.won': { kind: 'counter', unit: '{attempt}', description: 'Hedges whose response the caller got' },
  'evenkeel.retries.over_budget': {
    kind: 'counter',
    unit: '{attempt}',
    description: 'Retries and hedges the budget did not cover',
  },
  'evenkeel.retry.budget': {
    kind: 'gauge',
    unit: '{attempt}',
    description: 'Retries and hedges the budget can pay for now',
  },
  'evenkeel.limit': { kind: 'gauge', unit: '{call}', description: 'The limit on running calls, where there is one' },
  'evenkeel.endpoints': {
    kind: 'gauge',
    unit: '{endpoint}',
    description: 'Endpoints by the state of their connection',
    combine: 'largest',
    attributes: ['evenkeel.state'],
  },
  'evenkeel.endpoints.suspect': {
    kind: 'gauge',
    unit: '{endpoint}',
    description: 'Endpoints that get no calls because of how calls or probes on them ended',
    combine: 'largest',
  },
  'evenkeel.endpoints.stale': {
    kind: 'gauge',
    unit: 's',
    description: 'How long the set of endpoints has been unconfirmed; 0 = it is fresh',
    combine: 'largest',
  },
  'evenkeel.endpoints.published': { kind: 'counter', unit: '{set}', description: 'Sets of endpoints published' },
  'evenkeel.resolve.failures': {
    kind: 'counter',
    unit: '{failure}',
    description: 'Failures of discovery, once per kind of failure in a row',
  },
  'evenkeel.discovery.degraded': {
    kind: 'gauge',
    unit: '{state}',
    description: '1 while endpoints are not found in the best way',
    combine: 'largest',
    attributes: ['evenkeel.mode'],
  },
  'evenkeel.ejections': {
    kind: 'counter',
    unit: '{ejection}',
    description: 'Endpoints taken out of use',
    attributes: ['evenkeel.cause'],
  },
  'evenkeel.panic': {
    kind: 'gauge',
    unit: '{state}',
    description: '1 while so many endpoints are suspect that all are used',
    combine: 'largest',
  },
  'evenkeel.connections.open': {
    kind: 'gauge',
    unit: '{connection}',
    description: 'Network connections to endpoints that are open, by whether calls run on them',
    attributes: ['evenkeel.use'],
  },
  'evenkeel.connections.opened': {
    kind: 'counter',
    unit: '{connection}',
    description: 'Connections to endpoints opened',
  },
  'evenkeel.connections.failed': {
    kind: 'counter',
    unit: '{connection}',
    description: 'Attempts to connect to an endpoint that failed',
  },
  'evenkeel.connections.closed': {
    kind: 'counter',
    unit: '{connection}',
    description: 'Connections to endpoints that ended; those replaced because of their age are not counted',
    attributes: ['evenkeel.cause'],
  },
  'evenkeel.imbalance': {
    kind: 'gauge',
    unit: '1',
    description: 'Picks of the busiest ready endpoint over the mean, by weight, in the last minute or two; 1 = even',
    combine: 'largest',
  },
  'evenkeel.share.least': {
    kind: 'gauge',
    unit: '1',
    description: 'The same of the ready endpoint with the fewest picks; far below 1 = it is avoided',
    combine: 'smallest',
  },
  'evenkeel.zone.share': {
    kind: 'gauge',
    unit: '1',
    description: 'Share of the picks that went to endpoints of a zone in the last minute or two',
    combine: 'largest',
    attributes: ['evenkeel.zone'],
  },
  'evenkeel.endpoint.picks': {
    kind: 'counter',
    unit: '{attempt}',
    description: 'Picks of this endpoint',
    attributes: ['evenkeel.endpoint', 'evenkeel.pod'],
    perEndpoint: true,
  },
  'evenkeel.endpoint.failures': {
    kind: 'counter',
    unit: '{attempt}',
    description: 'Attempts that failed on this endpoint',
    attributes: ['evenkeel.endpoint', 'evenkeel.pod'],
    perEndpoint: true,
  },
  'evenkeel.endpoint.in_flight': {
    kind: 'gauge',
    unit: '{call}',
    description: 'Calls running on this endpoint',
    attributes: ['evenkeel.endpoint', 'evenkeel.pod'],
    perEndpoint: true,
  },
  'evenkeel.endpoint.connections': {
    kind: 'gauge',
    unit: '{connection}',
    description: 'Network connections to this endpoint that are open',
    attributes: ['evenkeel.endpoint', 'evenkeel.pod'],
    perEndpoint: true,
  },
  'evenkeel.endpoint.load': {
    kind: 'gauge',
    unit: '{load}',
    description: 'Cost of one more call on this endpoint, by the load in use',
    combine: 'largest',
    attributes: ['evenkeel.endpoint', 'evenkeel.pod'],
    perEndpoint: true,
  },
} as const;

/** The name of a metric in OpenTelemetry. */
export type MetricName = keyof typeof metrics;

/** All of evenkeel's metrics, by their name in OpenTelemetry. */
export const catalogue: Readonly<Record<MetricName, Metric>> = Object.freeze(metrics);
