import type { BalancerSnapshot, EndpointSnapshot } from '../balancer/snapshot.js';
import { liveBalancers } from '../balancer/snapshot.js';
import type { BalancerWatcher, LiveBalancer } from '../observe/live-balancers.js';
import { type Clock, systemClock } from '../runtime/clock.js';
import { catalogue, type MetricName } from './catalogue.js';
import { RecentPicks } from './recent-picks.js';
import { type SeriesAttributes, SeriesSet } from './series.js';
import { type Recorder, TargetMeter } from './target-meter.js';

type Live = LiveBalancer<BalancerSnapshot>;

/** Which metrics an application wants besides those that are always reported. */
export interface Selection {
  /** How many endpoints of each balancer get series of their own. */
  readonly perEndpoint: number;
}

/** This many targets get series of their own; all further targets share series under the name `other`. */
const MAX_TARGETS = 1_000;

/**
 * Measures every balancer of this thread, including those created before it: durations when calls end, everything else from snapshots when
 * metrics are read. Counts of closed balancers are kept.
 */
export class Collector implements BalancerWatcher<BalancerSnapshot> {
  readonly recorders: Set<Recorder> = new Set();
  readonly #clock: Clock;
  readonly #maxTargets: number;
  readonly #meters = new Map<string, TargetMeter>();
  /** The final counts of closed balancers, by their target. */
  readonly #closed = new SeriesSet();
  readonly #recent = new WeakMap<Live, RecentPicks>();
  readonly #unwatch: () => void;

  constructor(clock: Clock = systemClock, maxTargets: number = MAX_TARGETS) {
    this.#clock = clock;
    this.#maxTargets = maxTargets;
    this.#unwatch = liveBalancers.watch(this);
  }

  /** Stops measuring all balancers. */
  stop(): void {
    this.#unwatch();
    for (const balancer of liveBalancers) balancer.meter = undefined;
  }

  created(balancer: Live): void {
    balancer.meter = this.#meterOf(balancer.name);
    this.#recent.set(balancer, new RecentPicks(this.#clock.now()));
  }

  closed(balancer: Live): void {
    addCounters(this.#closed, this.#targetOf(balancer.name), balancer.snapshot());
  }

  collect({ perEndpoint }: Selection): SeriesSet {
    const set = new SeriesSet();
    for (const meter of this.#meters.values()) meter.addTo(set);
    for (const name of this.#closed.names) {
      for (const { attributes, value } of this.#closed.of(name)) set.add(name, attributes, value as number);
    }
    for (const balancer of liveBalancers) {
      const target = this.#targetOf(balancer.name);
      const snapshot = balancer.snapshot();
      addCounters(set, target, snapshot);
      addGauges(set, target, snapshot);
      this.#addRecent(set, target, balancer, snapshot);
      for (const endpoint of snapshot.endpoints.slice(0, perEndpoint)) addEndpoint(set, target, endpoint);
    }
    return set;
  }

  #addRecent(set: SeriesSet, target: string, balancer: Live, snapshot: BalancerSnapshot): void {
    const shares = this.#recent.get(balancer)?.update(snapshot, this.#clock.now());
    if (shares === undefined) return;
    const of = { 'evenkeel.target': target };
    if (shares.most !== undefined) set.add('evenkeel.imbalance', of, shares.most);
    if (shares.least !== undefined) set.add('evenkeel.share.least', of, shares.least);
    for (const [zone, share] of shares.zones) set.add('evenkeel.zone.share', { ...of, 'evenkeel.zone': zone }, share);
  }

  #targetOf(name: string): string {
    return this.#meters.has(name) ? name : 'other';
  }

  #meterOf(name: string): TargetMeter {
    const target = this.#meters.has(name) || this.#meters.size < this.#maxTargets ? name : 'other';
    let meter = this.#meters.get(target);
    if (meter === undefined) {
      meter = new TargetMeter(target, this.recorders);
      this.#meters.set(target, meter);
    }
    return meter;
  }
}

function addCounters(set: SeriesSet, target: string, { version, counts }: BalancerSnapshot): void {
  const of = { 'evenkeel.target': target };
  const add = (name: MetricName, value: number, more?: SeriesAttributes): void =>
    set.add(name, more === undefined ? of : { ...of, ...more }, value);
  add('evenkeel.calls', counts.calls);
  add('evenkeel.calls.refused', counts.refused);
  add('evenkeel.calls.shed', counts.shed);
  add('evenkeel.picks', counts.picks);
  for (const [reason, count] of Object.entries(counts.retries)) {
    add('evenkeel.retries', count, { 'evenkeel.reason': reason });
  }
  add('evenkeel.hedges', counts.hedges);
  add('evenkeel.hedges.won', counts.hedgesWon);
  add('evenkeel.retries.over_budget', counts.overBudget);
  add('evenkeel.endpoints.published', version);
  add('evenkeel.resolve.failures', counts.resolveFailures);
  for (const [cause, count] of Object.entries(counts.ejections)) {
    add('evenkeel.ejections', count, { 'evenkeel.cause': cause });
  }
  const { opened, notOpened, lost, ended, drained } = counts.connections;
  add('evenkeel.connections.opened', opened);
  add('evenkeel.connections.failed', notOpened);
  for (const [cause, count] of Object.entries({ lost, ended, drained })) {
    add('evenkeel.connections.closed', count, { 'evenkeel.cause': cause });
  }
}

function addGauges(set: SeriesSet, target: string, snapshot: BalancerSnapshot): void {
  const of = { 'evenkeel.target': target };
  const { endpoints, discovery, limit } = snapshot;
  set.add('evenkeel.calls.waiting', of, snapshot.waiting);
  set.add('evenkeel.retry.budget', of, snapshot.retryBudget);
  if (limit !== undefined) set.add('evenkeel.limit', of, limit.max);
  set.add('evenkeel.endpoints.stale', of, snapshot.staleForMs / 1_000);
  set.add('evenkeel.panic', of, snapshot.panicking ? 1 : 0);
  if (discovery !== undefined) {
    const isDegraded = discovery.advice !== undefined;
    set.add('evenkeel.discovery.degraded', { ...of, 'evenkeel.mode': discovery.mode }, isDegraded ? 1 : 0);
  }
  const { open, active } = connectionsOf(snapshot);
  set.add('evenkeel.connections.open', { ...of, 'evenkeel.use': 'active' }, active);
  set.add('evenkeel.connections.open', { ...of, 'evenkeel.use': 'idle' }, open - active);
  const states = { idle: 0, connecting: 0, ready: 0, backoff: 0, draining: 0 };
  let suspects = 0;
  let inFlight = 0;
  for (const endpoint of endpoints) {
    if (endpoint.state !== 'closed') states[endpoint.state]++;
    if (endpoint.suspect) suspects++;
    inFlight += endpoint.inFlight;
  }
  for (const [state, count] of Object.entries(states)) {
    set.add('evenkeel.endpoints', { ...of, 'evenkeel.state': state }, count);
  }
  set.add('evenkeel.endpoints.suspect', of, suspects);
  set.add('evenkeel.calls.in_flight', of, inFlight);
}

function addEndpoint(set: SeriesSet, target: string, endpoint: EndpointSnapshot): void {
  const of = {
    'evenkeel.target': target,
    'evenkeel.endpoint': endpoint.address,
    'evenkeel.pod': endpoint.name ?? '',
  };
  set.add('evenkeel.endpoint.picks', of, endpoint.started);
  set.add('evenkeel.endpoint.failures', of, endpoint.failed);
  set.add('evenkeel.endpoint.in_flight', of, endpoint.inFlight);
  if (endpoint.connections >= 0) set.add('evenkeel.endpoint.connections', of, endpoint.connections);
  if (endpoint.load >= 0) set.add('evenkeel.endpoint.load', of, endpoint.load);
}

/** How many connections are open, and how many of them are in use. Each running call is assumed to use one connection. */
function connectionsOf({ endpoints }: BalancerSnapshot): { readonly open: number; readonly active: number } {
  let open = 0;
  let active = 0;
  for (const { connections, inFlight } of endpoints) {
    if (connections < 0) continue;
    open += connections;
    active += Math.min(connections, inFlight);
  }
  return { open, active };
}

let collector: Collector | undefined;

/** Returns this thread's collector. The first call creates it, and measuring begins. */
export function theCollector(): Collector {
  collector ??= new Collector();
  return collector;
}

/** The names of all metrics except histograms: their values are read when metrics are collected. */
export const observedMetrics: readonly MetricName[] = (Object.keys(catalogue) as MetricName[]).filter(
  (name) => catalogue[name].kind !== 'histogram',
);
