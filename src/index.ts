export {
  type AcquireOptions,
  type Balancer,
  createBalancer,
  type PickOptions,
  type RunOptions,
  type Use,
} from './balancer/balancer.js';
export {
  type BalancerOptions,
  type BalancingOptions,
  balancerDefaults,
  balancingOptionNames,
  checkBalancingOptions,
} from './balancer/balancer-options.js';
export { classifyError } from './balancer/classify.js';
export { outcomeAtDeadline } from './balancer/deadline-outcome.js';
export { LatencyQuantile } from './balancer/latency-quantile.js';
export type { Lease } from './balancer/lease.js';
export { type BalancerCounts, type BalancerSnapshot, type EndpointSnapshot, noCounts } from './balancer/snapshot.js';
export { hostPort, normalizeAddress } from './endpoint/address.js';
export { type Asked, ask, askedError, isAskedError, isPromise } from './endpoint/asked.js';
export { type AttributeKey, Attributes, attributeKey } from './endpoint/attributes.js';
export { endpointConnectionAgeMs } from './endpoint/connection-age.js';
export {
  createEndpoint,
  type Endpoint,
  type EndpointConditions,
  type EndpointInit,
  endpointAddress,
} from './endpoint/endpoint.js';
export { type EndpointEntry, EndpointSet } from './endpoint/endpoint-set.js';
export { type LoadReport, type Outcome, type OutcomeCause, outcomes } from './endpoint/outcome.js';
export { outcomeOfSystemError } from './endpoint/system-errors.js';
export type { AllowAddresses, UnsafeAddressClass } from './endpoint/unsafe-address.js';
export {
  asError,
  type ErrorCode,
  EvenkeelError,
  type EvenkeelErrorDetails,
  errorCodes,
  isEvenkeelError,
  isResolveError,
  ResolveError,
} from './errors.js';
export { inFlight } from './load/in-flight.js';
export type { Load, LoadFactory } from './load/load.js';
export { loadReportHeader, parseLoadReport } from './load/orca.js';
export { type PeakEwmaOptions, peakEwma } from './load/peak-ewma.js';
export { type ReportedOptions, reported } from './load/reported.js';
export type { DiagnosticsEvents } from './observe/diagnostics-channel.js';
export {
  combineObservers,
  notify,
  type Observer,
  type ObserverEvents,
  observerEventNames,
  observes,
  type SubchannelState,
} from './observe/observer.js';
export { type HashOptions, hash } from './picker/hash.js';
export { type HotColdOptions, hotCold } from './picker/hot-cold.js';
export { leastLoaded, neverQueue, shortestExpectedDelay } from './picker/least-loaded.js';
export { type P2cOptions, p2c } from './picker/p2c.js';
export {
  fits,
  type Picker,
  type PickerContext,
  type PickerFactory,
  type PickRequest,
  type PickSet,
} from './picker/picker.js';
export { random } from './picker/random.js';
export { roundRobin } from './picker/round-robin.js';
export { type WeightedRoundRobinOptions, weightedRoundRobin } from './picker/weighted-round-robin.js';
export type { Leaving } from './pool/leave-notice.js';
export { type PoolOptions, poolDefaults } from './pool/pool-options.js';
export type { Subchannel } from './pool/subchannel.js';
export type { Connection, Transport } from './pool/transport.js';
export { type ClusterFiles, type ClusterNames, readClusterNames } from './resolver/cluster-domain.js';
export { type CombineOptions, firstAvailable, union } from './resolver/combine.js';
export { type DnsOptions, type DnsSettings, dns } from './resolver/dns.js';
export type { DnsAddress, DnsClient, DnsClientFactory, DnsService } from './resolver/dns-client.js';
export { type PollAnswer, type PollingOptions, type PollLook, polling } from './resolver/polling.js';
export type { Resolution, Resolver, ResolverContext, ResolverListener } from './resolver/resolver.js';
export {
  type ServiceHostSnapshot,
  ServiceHosts,
  type ServiceHostsOptions,
  type ServiceRule,
} from './resolver/service-hosts.js';
export { staticEndpoints } from './resolver/static.js';
export { type KubernetesSettings, resolverFrom, type TargetOptions } from './resolver/target.js';
export { type RetryBudgetOptions, retryBudgetDefaults } from './retry/budget.js';
export type { EndedAttempt, RetryCandidate } from './retry/ended-attempt.js';
export type { RetryCounts, RetryReason } from './retry/retry-counts.js';
export { type RetryOptions, retryDefaults } from './retry/retry-options.js';
export type { RetryPolicy } from './retry/retry-policy.js';
export { type Attempt, TriedEndpoints } from './retry/tried-endpoints.js';
export {
  checkBoolean,
  checkFunction,
  checkKeys,
  checkNumber,
  checkPort,
  checkString,
  optionError,
  unknownOption,
} from './runtime/check.js';
export { type Clock, systemClock, type Timer } from './runtime/clock.js';
export { Closing } from './runtime/closing.js';
export type { Complete } from './runtime/complete.js';
export { type Rng, systemRng } from './runtime/rng.js';
export { type SharedTimer, SharedTimers, type Timed } from './runtime/shared-timers.js';
export { afterPendingIo } from './runtime/turn.js';
export { type ActiveHealthOptions, activeHealth } from './stage/active-health.js';
export { conditions } from './stage/conditions.js';
export { type OutlierEjectionOptions, outlierEjection } from './stage/outlier-ejection.js';
export { panic } from './stage/panic.js';
export { type PushbackOptions, pushback } from './stage/pushback.js';
export { type SlowStartOptions, slowStart } from './stage/slow-start.js';
export { applyStages, type Stage, type StageContext, type StageFactory, type Tracker } from './stage/stage.js';
export { standardStages } from './stage/standard-stages.js';
export { type SubsetOptions, subset } from './stage/subset.js';
export { type ZoneOptions, zone } from './stage/zone.js';
export { type TopologyHintsOptions, type TopologySource, topologyFromEnv, topologyHints } from './stage/zone-hints.js';
