import { endpointAddress, withOtherFirst } from '../endpoint/endpoint.js';
import { RuledLoad } from '../load/load-rule.js';
import {
  type ConnectionCounts,
  type DiscoveryState,
  type EjectionCause,
  EventCounts,
} from '../observe/event-counts.js';
import { LiveBalancers } from '../observe/live-balancers.js';
import type { SubchannelState } from '../observe/observer.js';
import type { Pool } from '../pool/pool.js';
import type { Subchannel } from '../pool/subchannel.js';
import { RetryCounter, type RetryCounts, type RetryRules } from '../retry/retry-policy.js';
import type { EndpointFeed } from './endpoint-feed.js';
import { type EndpointStatus, statusOf, whyFewer } from './endpoint-status.js';

/** The state of a balancer in human-readable form: plain JSON, created on demand. */
export interface BalancerSnapshot {
  /** The resolver's name. */
  readonly resolver: string;
  /**
   * `starting`: no set was published yet. `empty`: the Service is known to have no endpoint. `ready`: a call can be picked an endpoint.
   * `not-ready`: no endpoint can take a call now. `idle`: a gRPC channel without calls does not look for endpoints. `closed`: the balancer
   * was closed.
   */
  readonly state: 'starting' | 'empty' | 'ready' | 'not-ready' | 'idle' | 'closed';
  /** How many endpoint sets the resolver has published. */
  readonly version: number;
  /** For how long the resolver has been unable to confirm its set, in ms; 0 = the set is fresh. */
  readonly staleForMs: number;
  /** Why the resolver last failed; absent unless it is failing now. */
  readonly resolveError?: string;
  /** For a plain target: how its endpoints are found, why in this way, and what would be better. */
  readonly discovery?: DiscoveryState;
  /** Whether `panic` makes all endpoints usable, because too many are suspect. */
  readonly panicking: boolean;
  /** How many callers are waiting for an endpoint. */
  readonly waiting: number;
  /** The limit on running calls, and how many calls count against it now; absent if there is no limit. */
  readonly limit?: { readonly max: number; readonly running: number };
  /** For how many retries and hedges the budget would pay now. */
  readonly retryBudget: number;
  /** The endpoints of the current set, then those that left the set and still finish calls. */
  readonly endpoints: readonly EndpointSnapshot[];
  /** What the balancer has counted since it was created. The numbers only grow, so that a metrics library can read them periodically. */
  readonly counts: BalancerCounts;
}

/** What a balancer has counted since it was created. The numbers only grow. */
export interface BalancerCounts extends RetryCounts {
  /** How many picks were made, for first attempts, retries and hedges; includes a few that were returned unused. */
  readonly picks: number;
  /** How many attempts got no endpoint, after waiting or at once (the event `refused`). */
  readonly refused: number;
  /** How many of the refused attempts were shed because of the limit on running calls (EVENKEEL_OVERLOAD). */
  readonly shed: number;
  /** How often endpoints were taken out of use because their calls or probes failed, by cause. */
  readonly ejections: Readonly<Record<EjectionCause, number>>;
  /** How many connections were opened, failed and were closed, over all endpoints that ever were in the set. */
  readonly connections: ConnectionCounts;
  /** How often the resolver failed. Failures of the same kind in a row count once. */
  readonly resolveFailures: number;
}

/** All balancers of this thread, for metrics and the admin page: the only state that balancers share. */
export const liveBalancers: LiveBalancers<BalancerSnapshot> = new LiveBalancers<BalancerSnapshot>();

/** The counts of a balancer before any call. */
export const noCounts: BalancerCounts = Object.freeze({
  picks: 0,
  refused: 0,
  shed: 0,
  calls: 0,
  retries: Object.freeze({ ...new RetryCounter().retries }),
  hedges: 0,
  hedgesWon: 0,
  overBudget: 0,
  ...eventCounts(new EventCounts()),
});

/** One endpoint in a snapshot: what it is, what it does, and why it gets as many calls as it gets. */
export interface EndpointSnapshot {
  /** Identifies the endpoint: `address:port`, and `#uid` if the pod's uid is known. To show it to people, use `address`. */
  readonly key: string;
  /** The endpoint's address and port, such as `10.0.3.7:8080`. If a pod has two addresses, this is the one in use. */
  readonly address: string;
  /** The pod's other address and port, such as `[fd00::7]:8080`; absent if it has one address. */
  readonly otherAddress?: string;
  /** The pod's name or host name; absent if unknown. */
  readonly name?: string;
  /** The zone the pod runs in, as in the label `topology.kubernetes.io/zone`; absent if unknown. */
  readonly zone?: string;
  /** The state of the endpoint's connection. */
  readonly state: SubchannelState;
  /** Whether the endpoint gets calls, and if not, in short why. */
  readonly status: EndpointStatus;
  /** Why the endpoint gets no calls, or fewer than others, in words; absent if it gets its share. */
  readonly why?: string;
  /** The endpoint's share of picks relative to the others; 0 = standby or draining. */
  readonly weight: number;
  /** Whether a stage considers the endpoint broken, because probes or calls failed or because the endpoint said so. */
  readonly suspect: boolean;
  /** Why the endpoint was ejected; absent unless it is ejected now. */
  readonly ejectedBecause?: string;
  /** How many calls of this balancer run on the endpoint now. Calls of other clients do not count. */
  readonly inFlight: number;
  /** How many concurrent calls the endpoint's connections can carry; -1 = no limit. */
  readonly capacity: number;
  /** The cost of one more call on this endpoint, in the unit of the load in use; -1 = infinite or unknown. */
  readonly load: number;
  /**
   * How many times as much one more call costs on this endpoint as on the cheapest ready endpoint; 1 = this is the cheapest, -1 = unknown,
   * or it gets no calls.
   */
  readonly relativeCost: number;
  /** Network connections to the endpoint that are open. */
  readonly connections: number;
  /** Calls started on this endpoint since it was added. */
  readonly started: number;
  /** How many of the started calls failed because of the endpoint or its connection. Calls that their caller gave up do not count. */
  readonly failed: number;
  /** The error message of the last failure of the endpoint's connection; absent once a connection is open again. */
  readonly lastError?: string;
}

/** The part of a balancer's counts that comes from events of its observer. */
function eventCounts({
  ejections,
  connections,
  resolveFailures,
}: EventCounts): Pick<BalancerCounts, 'ejections' | 'connections' | 'resolveFailures'> {
  return { ejections: { ...ejections }, connections: { ...connections }, resolveFailures };
}

/** The parts of a balancer that its snapshot is made of. */
interface SnapshotParts<C> {
  readonly isClosed: boolean;
  /** Whether the resolver has published a set. */
  readonly isFilled: boolean;
  readonly isEmpty: boolean;
  readonly feed: EndpointFeed;
  readonly events: EventCounts;
  readonly pool: Pool<C>;
  readonly limit: { readonly max: number; readonly running: number } | undefined;
  readonly retries: RetryRules;
  readonly callers: { readonly waiting: number; readonly refused: number; readonly shed: number };
  readonly nowMs: number;
}

export function snapshotBalancer<C>(parts: SnapshotParts<C>): BalancerSnapshot {
  const { feed, events, pool, limit, retries, callers } = parts;
  const { name: resolver, version, staleForMs, error } = feed;
  const { waiting, refused, shed } = callers;
  return {
    resolver,
    state: stateOf(parts),
    version,
    staleForMs,
    ...(error !== undefined && { resolveError: error.message }),
    ...(events.discovery !== undefined && { discovery: events.discovery }),
    panicking: events.isPanicking,
    waiting,
    ...(limit !== undefined && { limit: { max: limit.max, running: limit.running } }),
    retryBudget: retries.budget.left,
    endpoints: snapshotEndpoints(parts),
    counts: { ...retries.counts, picks: pool.started, refused, shed, ...eventCounts(events) },
  };
}

function stateOf<C>({ isClosed, isFilled, isEmpty, pool }: SnapshotParts<C>): BalancerSnapshot['state'] {
  if (isClosed) return 'closed';
  if (!isFilled) return 'starting';
  if (isEmpty) return 'empty';
  return pool.hasReady ? 'ready' : 'not-ready';
}

/** Returns the endpoints of the pool for a snapshot: members of the set first, then draining endpoints. */
function snapshotEndpoints<C>({ pool, events, nowMs }: SnapshotParts<C>): EndpointSnapshot[] {
  const members = pool.members.map((member) => ({
    ...member,
    load: finite(() => member.subchannel.cost(nowMs)),
  }));
  const cheapest = members
    .filter(({ subchannel, weight, load }) => subchannel.state === 'ready' && weight > 0 && load >= 0)
    .reduce((least, { load }) => Math.min(least, load), Number.POSITIVE_INFINITY);
  const result = members.map((member) => snapshotOf(member, cheapest, events));
  const listed = new Set(members.map(({ subchannel }) => subchannel));
  for (const subchannel of pool.subchannels) {
    if (listed.has(subchannel)) continue;
    const load = finite(() => subchannel.cost(nowMs));
    result.push(snapshotOf({ subchannel, weight: 0, suspect: false, load }, cheapest, events));
  }
  return result;
}

interface Measured<C> {
  readonly subchannel: Subchannel<C>;
  readonly weight: number;
  readonly suspect: boolean;
  readonly load: number;
}

function snapshotOf<C>(
  { subchannel, weight, suspect, load }: Measured<C>,
  cheapest: number,
  events: EventCounts,
): EndpointSnapshot {
  const { endpoint, state, inFlight } = subchannel;
  const ejectedBecause = events.ejectedBecause(endpoint.key);
  const lastError = subchannel.lastError?.message;
  const timesCheapest = load >= 0 && cheapest > 0 && Number.isFinite(cheapest) ? load / cheapest : undefined;
  const share = subchannel.load instanceof RuledLoad ? subchannel.load.share : 1;
  const facts = { state, weight, suspect, ejectedBecause, lastError, inFlight, timesCheapest, share };
  const why = whyFewer(facts, events.isPanicking);
  const status = statusOf(facts, events.isPanicking);
  return {
    key: endpoint.key,
    address: endpointAddress(endpoint),
    ...(endpoint.otherAddress !== undefined && { otherAddress: endpointAddress(withOtherFirst(endpoint)) }),
    ...(endpoint.name !== undefined && { name: endpoint.name }),
    ...(endpoint.zone !== undefined && { zone: endpoint.zone }),
    state,
    status,
    ...(why !== undefined && { why }),
    weight,
    suspect,
    ...(ejectedBecause !== undefined && { ejectedBecause }),
    inFlight,
    capacity: finite(() => subchannel.capacity),
    load,
    relativeCost: status === 'ready' || status === 'idle' ? (timesCheapest ?? -1) : -1,
    connections: subchannel.connection === undefined ? 0 : finite(() => subchannel.connection?.sockets ?? 1),
    started: subchannel.started,
    failed: subchannel.failed,
    ...(lastError !== undefined && { lastError }),
  };
}

/**
 * Returns the number that `read` returns; -1 for a number that JSON does not have, or if `read` throws. `read` may run code of the
 * application's transport or load.
 */
function finite(read: () => number): number {
  try {
    const value = read();
    return Number.isFinite(value) ? value : -1;
  } catch {
    return -1;
  }
}
