export {
  type AcquireOptions,
  type Balancer,
  createBalancer,
  type PickOptions,
  type Priority,
  type RunOptions,
  type Use,
} from './balancer/balancer.js';
export type {
  BalancerOptions,
  BalancingOptions,
} from './balancer/balancer-options.js';
export type { BalancerCounts, BalancerSnapshot, EndpointSnapshot } from './balancer/snapshot.js';
export type { Lease } from './call/lease.js';
export { classifyError } from './call/run-call.js';
export { type AttributeKey, Attributes, attributeKey } from './endpoint/attributes.js';
export {
  createEndpoint,
  type Endpoint,
  type EndpointConditions,
  type EndpointInit,
  endpointAddress,
} from './endpoint/endpoint.js';
export { type EndpointEntry, EndpointSet } from './endpoint/endpoint-set.js';
export { type LoadReport, type Outcome, type OutcomeCause, outcomes } from './endpoint/outcome.js';
export type { AllowAddresses, UnsafeAddressClass } from './endpoint/unsafe-address.js';
export {
  type ErrorCode,
  EvenkeelError,
  type EvenkeelErrorDetails,
  errorCodes,
  isEvenkeelError,
  isResolveError,
  ResolveError,
} from './errors.js';
export { type AdaptiveOptions, adaptive } from './limit/adaptive.js';
export { type FixedOptions, fixed } from './limit/fixed.js';
export type { Limit, LimitFactory } from './limit/limit.js';
export { inFlight } from './load/in-flight.js';
export type { Load, LoadFactory, LoadSet } from './load/load.js';
export { type PeakEwmaOptions, peakEwma } from './load/peak-ewma.js';
export { relativeLatency } from './load/relative-latency.js';
export { type ReportedOptions, reported } from './load/reported.js';
export type { DiagnosticsEvents } from './observe/observer.js';
export {
  combineObservers,
  type Observer,
  type ObserverEvents,
  observerEventNames,
  type SubchannelState,
} from './observe/observer.js';
export type { AttemptReason, TracedAttempt, TracedCall } from './observe/traces.js';
export * from './picker/all.js';
export type { HashOptions } from './picker/hash.js';
export type { P2cOptions } from './picker/p2c.js';
export {
  fits,
  type Picker,
  type PickerContext,
  type PickerFactory,
  type PickRequest,
  type PickSet,
  type PickTarget,
} from './picker/picker.js';
export {
  cookieKey,
  headerKey,
  type KeyedRequest,
  type PrefixKey,
  type PrefixKeyOptions,
  type PromptKeyOptions,
  prefixKey,
  promptKey,
} from './picker/request-key.js';
export type { WeightedRoundRobinOptions } from './picker/weighted-round-robin.js';
export type { Leaving } from './pool/drain.js';
export type { PoolOptions } from './pool/pool-options.js';
export type { Connection, Transport } from './pool/transport.js';
export { type CombineOptions, firstAvailable, union } from './resolver/combine.js';
export { type DnsOptions, type DnsSettings, dns } from './resolver/dns.js';
export type { DnsAddress, DnsClient, DnsClientFactory, DnsService } from './resolver/dns-client.js';
export { type PollAnswer, type PollingOptions, type PollLook, polling } from './resolver/polling.js';
export type { Resolution, Resolver, ResolverContext, ResolverListener } from './resolver/resolver.js';
export { staticEndpoints } from './resolver/static.js';
export { type KubernetesSettings, resolverFrom, type TargetOptions } from './resolver/target.js';
export type { RetryBudgetOptions } from './retry/budget.js';
export type { RetryCandidate } from './retry/ended-attempt.js';
export type { RetryOptions } from './retry/retry-options.js';
export type { RetryCounts, RetryReason } from './retry/retry-policy.js';
export { type Clock, systemClock, type Timer } from './runtime/clock.js';
export { systemRng } from './runtime/random32.js';
export type { Rng } from './runtime/rng.js';
export { type TopologySource, topologyFromEnv } from './runtime/topology.js';
export { type ActiveHealthOptions, activeHealth } from './stage/active-health.js';
export { conditions } from './stage/conditions.js';
export { type OutlierEjectionOptions, outlierEjection } from './stage/outlier-ejection.js';
export { panic } from './stage/panic.js';
export { type PushbackOptions, pushback } from './stage/pushback.js';
export { type SlowStartOptions, slowStart } from './stage/slow-start.js';
export type { Stage, StageContext, StageFactory, Tracker } from './stage/stage.js';
export { type StandardStageName, without } from './stage/standard-stages.js';
export { type SubsetOptions, subset } from './stage/subset.js';
export { type ZoneOptions, zone } from './stage/zone.js';
export { type TopologyHintsOptions, topologyHints } from './stage/zone-hints.js';
