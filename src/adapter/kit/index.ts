/** What evenkeel's adapters share: the parts of the core that they use, and the kit in this folder. `evenkeel/adapter` offers some of it. */

export {
  balancerDefaults,
  balancingTable,
  checkBalancingOptions,
} from '../../balancer/balancer-options.js';
export { noCounts } from '../../balancer/snapshot.js';
export type {
  AttemptedCall,
  AttemptSource,
  FailedAttempt,
  Resend,
  SharedAttempts,
} from '../../call/attempted-call.js';
export { reportAttempt } from '../../call/attempted-call.js';
export { Attempts } from '../../call/attempts.js';
export { outcomeAtDeadline } from '../../call/call-deadline.js';
export { type AttemptTrace, CallTrace, type TracedSource, traceOf } from '../../call/call-trace.js';
export { LatencyQuantile } from '../../call/latency-quantile.js';
export { type CallLease, callLease } from '../../call/lease.js';
export { pickOther } from '../../call/other-endpoint.js';
export { isSameIdentity } from '../../credentials/identity.js';
export {
  isPerEndpointError,
  isPromise,
  type PerEndpoint,
  perEndpointError,
  valueFor,
} from '../../credentials/per-endpoint.js';
export { ValueWatch } from '../../credentials/value-watch.js';
export { endpointAppProtocol, H2C } from '../../endpoint/app-protocol.js';
export { endpointConnectionAgeMs } from '../../endpoint/connection-age.js';
export { outcomeOfSystemError } from '../../endpoint/system-errors.js';
export { asError } from '../../errors.js';
export {
  loadReportFormatHeader,
  loadReportHeader,
  parseLoadReport,
  reportsHeader,
} from '../../load/orca.js';
export { isTraced, notify } from '../../observe/observer.js';
export type { AttemptReason, CallFacts } from '../../observe/traces.js';
export { Warnings } from '../../observe/warnings.js';
export { pickerOf } from '../../picker/request-key.js';
export { Placements } from '../../placement/placements.js';
export {
  type ConnectionLeaving,
  type PlacingOptions,
  placingTable,
  type RebalanceOptions,
  resolvePlacingOptions,
} from '../../placement/placing-options.js';
export { markLasting } from '../../pool/lasting-error.js';
export { poolDefaults, poolTable } from '../../pool/pool-options.js';
export type { Subchannel } from '../../pool/subchannel.js';
export { addressMark, connectionMark, notBegunHeader } from '../../propagation/not-begun.js';
export { checkPriority, isPriority } from '../../propagation/priority.js';
export { formatDeadline, parseDeadline, shorter } from '../../propagation/propagated.js';
export { readClusterNames } from '../../resolver/cluster-domain.js';
export { type ServiceHostSnapshot, ServiceHosts, type ServiceRule } from '../../resolver/service-hosts.js';
export type { RetryPolicy } from '../../retry/retry-policy.js';
export { TriedEndpoints } from '../../retry/tried-endpoints.js';
export { offAbort, onAbort, orAborted } from '../../runtime/abort-listeners.js';
export {
  checkBoolean,
  checkFunction,
  checkKeys,
  checkNumber,
  checkPort,
  checkString,
  optionError,
  optionKindError,
  textOf,
  unknownOption,
} from '../../runtime/check.js';
export { Closing } from '../../runtime/closing.js';
export type { Complete, Filled } from '../../runtime/complete.js';
export { deadline } from '../../runtime/deadline.js';
export { closestOf } from '../../runtime/did-you-mean.js';
export { ignoreRejection } from '../../runtime/ignore-rejection.js';
export { nodeHttp } from '../../runtime/node-http.js';
export {
  anyOption,
  booleanOption,
  checkedOption,
  choiceOption,
  clockOption,
  functionOption,
  numberOption,
  type Option,
  type OptionTable,
  optionalBoolean,
  optionalNumber,
  optionalString,
  optionTable,
  requiredOption,
  rngOption,
} from '../../runtime/options.js';
export { ownProperties } from '../../runtime/own-properties.js';
export { checkPeer } from '../../runtime/peer-version.js';
export { jittered } from '../../runtime/rng.js';
export { type SharedTimer, SharedTimers, type Timed } from '../../runtime/shared-timers.js';
export { Stopper } from '../../runtime/stopper.js';
export { afterPendingIo } from '../../runtime/turn.js';
export { dateIn } from '../../runtime/wall-clock.js';
export { closeFrame, leaveCodeOption } from './close-frame.js';
export { OpenConnection, socketConnection } from './connection.js';
export { ConnectionGroup, type GroupMember, type MemberEvents } from './connection-group.js';
export { type ConnectionCounts, connectionsOption } from './connections-option.js';
export { ChosenEndpoint, type Dial, type DialledConnection } from './dial.js';
export { outcomeOfGrpcStatus, type RefusalCheck } from './grpc-status.js';
export { openSocket, serviceTls } from './open-socket.js';
export { inheritedPriority, type PropagateOptions, Propagation, remainingOf } from './propagation.js';
export { type LogPosition, LogPositions, ReplicationLag } from './replication-lag.js';
export { type AskForReports, checkAskForReports, ReportAsking } from './report-asking.js';
export { lagObjection, type ServerRank, ServerRanking, type ServerRole } from './server-ranking.js';
export { limited, ServerWatch, type WatchedServer } from './server-watch.js';
export { pickNames, type ServiceName, serviceBalancer, serviceName } from './service-balancer.js';
export {
  answeredOn,
  type HeldSocket,
  type PlaceOptions,
  SocketPlacer,
  type SocketPlacerOptions,
} from './socket-placer.js';
export { checkTlsOptions, setByHttp } from './tls-options.js';
