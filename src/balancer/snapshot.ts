import { endpointAddress, withOtherFirst } from '../endpoint/endpoint.js';
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
   * `starting`: no set yet. `empty`: known to have no endpoint. `ready`: something can be picked. `idle`: not looking for
   * endpoints until there is a call; only gRPC channels do that.
   */
  readonly state: 'starting' | 'empty' | 'ready' | 'not-ready' | 'idle' | 'closed';
  /** How many endpoint sets the resolver has published. */
  readonly version: number;
  /** How long the resolver has not confirmed its set, in ms; 0 = the set is fresh. */
  readonly staleForMs: number;
  /** Why the resolver last failed, while it is failing. */
  readonly resolveError?: string;
  /** How the endpoints of a plain target are found, why so, and what would be better. */
  readonly discovery?: DiscoveryState;
  /** Whether `panic` uses all endpoints, because too many are suspect. */
  readonly panicking: boolean;
  /** Callers waiting for an endpoint. */
  readonly waiting: number;
  /** The limit on running calls, where there is one, and how many count against it. */
  readonly limit?: { readonly max: number; readonly running: number };
  /** How many retries and hedges the budget would pay for now. */
  readonly retryBudget: number;
  /**
   * How many endpoints that were not in use were raised in the client's order of preference, so that new and recovered ones are found;
   * absent if its picker keeps none.
   */
  readonly raises?: number;
  /** The endpoints of the set, then those that left it and still finish calls. */
  readonly endpoints: readonly EndpointSnapshot[];
  /** What the balancer has counted since its creation; the numbers only grow, so that a metrics library can read them periodically. */
  readonly counts: BalancerCounts;
}

/** What a balancer has counted since it was created. The numbers only grow. */
export interface BalancerCounts extends RetryCounts {
  /** Picks made, including those of endpoints that are gone: first attempts, retries and hedges, and some returned unused. */
  readonly picks: number;
  /** Attempts that waited for an endpoint without getting one, or were refused immediately (the event `refused`). */
  readonly refused: number;
  /** Those of the refused attempts that were shed because of the limit on running calls (EVENKEEL_OVERLOAD). */
  readonly shed: number;
  /** Endpoints taken out of use because of how calls or probes on them ended, by cause. */
  readonly ejections: Readonly<Record<EjectionCause, number>>;
  /** Connections opened, failed and closed, over all endpoints, gone ones included. */
  readonly connections: ConnectionCounts;
  /** How often the resolver failed: once per kind of failure in a row, not per attempt. */
  readonly resolveFailures: number;
}

/** The balancers of this thread, for metrics and the admin page. The one thing balancers share. */
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

/** One endpoint of a snapshot: what it is, what it does, and why it gets the calls it gets. */
export interface EndpointSnapshot {
  /** The endpoint's identity: `address:port`, and `#uid` if the pod's uid is known. For people there is `address`. */
  readonly key: string;
  /** Address and port, such as `10.0.3.7:8080`. Of two addresses the one in use. */
  readonly address: string;
  /** The pod's other address and port, such as `[fd00::7]:8080`; absent if it has one address. */
  readonly otherAddress?: string;
  /** The pod's name or host name; absent if unknown. */
  readonly name?: string;
  /** The zone the pod runs in, as in the label `topology.kubernetes.io/zone`; absent if unknown. */
  readonly zone?: string;
  /** The state of the endpoint's connection. */
  readonly state: SubchannelState;
  /** What the endpoint is for the picker: whether it gets calls, and if not, why. */
  readonly status: EndpointStatus;
  /** Why the endpoint gets no calls, or fewer than others, in words; absent if it gets its share. */
  readonly why?: string;
  /** The endpoint's share of picks relative to the others; 0 = standby or draining. */
  readonly weight: number;
  /** Whether a stage considers the endpoint broken: it failed probes or calls, or reported that itself. */
  readonly suspect: boolean;
  /** Why the endpoint was ejected; absent unless it is ejected now. */
  readonly ejectedBecause?: string;
  /** Calls of this balancer that run on the endpoint now; those of other clients are not known. */
  readonly inFlight: number;
  /** Concurrent calls the endpoint's connections can carry; -1 = no limit. */
  readonly capacity: number;
  /** The cost of one more call on this endpoint, in the unit of the load in use; -1 = not a number that JSON has. */
  readonly load: number;
  /**
   * The cost of one more call on this endpoint as a multiple of the cheapest ready endpoint's; 1 = the cheapest, -1 = unknown, or it gets
   * no calls.
   */
  readonly relativeCost: number;
  /** The endpoint's place in the client's order of preference, from 1; absent if its picker keeps none. */
  readonly place?: number;
  /** Network connections to the endpoint that are open. */
  readonly connections: number;
  /** Calls started on this endpoint since it was added. */
  readonly started: number;
  /** Those of the started calls that failed because of the endpoint or its connection; not those the caller gave up. */
  readonly failed: number;
  /** The message of what its connection last failed with; absent once it is connected again. */
  readonly lastError?: string;
}

/** The counts of a balancer that come from the observer's events. */
function eventCounts({
  ejections,
  connections,
  resolveFailures,
}: EventCounts): Pick<BalancerCounts, 'ejections' | 'connections' | 'resolveFailures'> {
  return { ejections: { ...ejections }, connections: { ...connections }, resolveFailures };
}

/** The sources of a snapshot. */
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
  /** The picker, which knows the order of preference if it keeps one. */
  readonly currentPicker: {
    readonly raises: number | undefined;
    placeOf(subchannel: Subchannel<C>): number | undefined;
  };
  readonly nowMs: number;
}

export function snapshotBalancer<C>(parts: SnapshotParts<C>): BalancerSnapshot {
  const { feed, events, pool, limit, retries, callers, currentPicker } = parts;
  const { raises } = currentPicker;
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
    ...(raises !== undefined && { raises }),
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

/** The endpoints of the pool for a snapshot: members of the set first, then draining endpoints. */
function snapshotEndpoints<C>({ pool, events, currentPicker, nowMs }: SnapshotParts<C>): EndpointSnapshot[] {
  const members = pool.members.map((member) => ({
    ...member,
    load: finite(() => member.subchannel.cost(nowMs)),
    place: currentPicker.placeOf(member.subchannel),
  }));
  const cheapest = members
    .filter(({ subchannel, weight, load }) => subchannel.state === 'ready' && weight > 0 && load >= 0)
    .reduce((least, { load }) => Math.min(least, load), Number.POSITIVE_INFINITY);
  const result = members.map((member) => snapshotOf(member, cheapest, events));
  const listed = new Set(members.map(({ subchannel }) => subchannel));
  for (const subchannel of pool.subchannels) {
    if (listed.has(subchannel)) continue;
    const load = finite(() => subchannel.cost(nowMs));
    result.push(snapshotOf({ subchannel, weight: 0, suspect: false, load, place: undefined }, cheapest, events));
  }
  return result;
}

interface Measured<C> {
  readonly subchannel: Subchannel<C>;
  readonly weight: number;
  readonly suspect: boolean;
  readonly load: number;
  readonly place: number | undefined;
}

function snapshotOf<C>(
  { subchannel, weight, suspect, load, place }: Measured<C>,
  cheapest: number,
  events: EventCounts,
): EndpointSnapshot {
  const { endpoint, state, inFlight } = subchannel;
  const ejectedBecause = events.ejectedBecause(endpoint.key);
  const lastError = subchannel.lastError?.message;
  const timesCheapest = load >= 0 && cheapest > 0 && Number.isFinite(cheapest) ? load / cheapest : undefined;
  const facts = { state, weight, suspect, ejectedBecause, lastError, inFlight, timesCheapest };
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
    ...(place !== undefined && { place }),
    connections: subchannel.connection === undefined ? 0 : finite(() => subchannel.connection?.sockets ?? 1),
    started: subchannel.started,
    failed: subchannel.failed,
    ...(lastError !== undefined && { lastError }),
  };
}

/**
 * The number that `read` returns; -1 for numbers that JSON does not have, and if `read` throws, since it runs the application's transport
 * or load.
 */
function finite(read: () => number): number {
  try {
    const value = read();
    return Number.isFinite(value) ? value : -1;
  } catch {
    return -1;
  }
}
