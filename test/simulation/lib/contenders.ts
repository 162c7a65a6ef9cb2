import type { LoadReport } from '../../../src/endpoint/outcome.js';
import { inFlight } from '../../../src/load/in-flight.js';
import { inFlightMetric } from '../../../src/load/orca.js';
import { peakEwma } from '../../../src/load/peak-ewma.js';
import { relativeLatency } from '../../../src/load/relative-latency.js';
import { reported } from '../../../src/load/reported.js';
import { leastLoaded } from '../../../src/picker/least-loaded.js';
import { p2c } from '../../../src/picker/p2c.js';
import type { PickerFactory, PickTarget } from '../../../src/picker/picker.js';
import { rotatingAperture } from '../../../src/picker/rotating-aperture.js';
import { roundRobin } from '../../../src/picker/round-robin.js';
import { weightedRoundRobin } from '../../../src/picker/weighted-round-robin.js';
import { slowStart } from '../../../src/stage/slow-start.js';
import { envoyLeastRequest } from './envoy.js';
import { aperture, plainPeakEwma, twoChoices } from './finagle.js';
import { KeepAliveClient } from './keep-alive-client.js';
import { prequal, prequalMetrics } from './prequal.js';
import type { SaidBy, Strategy } from './world.js';

const inFlightReport = ({ inFlight }: SaidBy): LoadReport => ({ namedMetrics: { [inFlightMetric]: inFlight } });
const ours = { picker: rotatingAperture(), load: relativeLatency() };

/** The bound for all: one client sees every call, and knows what it has on each server. */
export const ideal: Strategy = { name: 'ideal, one queue', picker: leastLoaded(), load: inFlight(), seesAll: true };

/** What users have without a balancer: connections that are kept alive, through kube-proxy. */
export const stock: Strategy = {
  name: 'stock, keep-alive',
  picker: roundRobin(),
  makeClient: (clock, rng) => new KeepAliveClient(clock, rng),
};

/** The default, by what servers say. */
export const withoutReports: Strategy = { ...ours, name: 'default, no reports' };
export const withReports: Strategy = { ...ours, name: 'default, reports', says: inFlightReport };

/** Even by count: what the default was before it had an order. */
export const drawn: Strategy = { name: 'p2c, relativeLatency', picker: p2c(), load: relativeLatency() };
export const callsInFlight: Strategy = { name: 'p2c of two, inFlight', picker: p2c({ choices: 2 }), load: inFlight() };
export const leastInFlight: Strategy = { name: 'leastLoaded, inFlight', picker: leastLoaded(), load: inFlight() };
export const inTurn: Strategy = { name: 'roundRobin', picker: roundRobin() };
export const byPeakEwma: Strategy = { name: 'p2c of two, peakEwma', picker: p2c({ choices: 2 }), load: peakEwma() };

const prequalOfPaper: Strategy = {
  name: 'Prequal, 3 probes',
  picker: prequal(),
  load: inFlight(),
  says: ({ inFlight, stats, isAsked }) =>
    isAsked
      ? {
          namedMetrics: {
            [prequalMetrics.inFlight]: inFlight,
            [prequalMetrics.latencyMs]: stats.latencyMs(inFlight + 1),
          },
        }
      : undefined,
};

const envoy: Strategy = { name: 'Envoy, least request', picker: envoyLeastRequest(), load: inFlight() };

/** Every way to balance that the tables compare. The file of each picker names its source. */
export const contenders: readonly Strategy[] = [
  ideal,
  stock,
  withReports,
  withoutReports,
  prequalOfPaper,
  callsInFlight,
  byPeakEwma,
  envoy,
  {
    ...envoy,
    name: 'Envoy, with slow start',
    // The window has no default there; 30 s is what its documentation shows.
    stages: [slowStart({ windowMs: 30_000, calls: Number.POSITIVE_INFINITY, minRatio: 0.1, aggression: 1 })],
  },
  {
    name: 'Finagle, aperture',
    picker: twoChoices(),
    load: inFlight(),
    ofClient: (client, clients) => ({ picker: aperture(client, clients) }),
  },
  { name: 'Finagle, peak EWMA', picker: twoChoices(), load: plainPeakEwma({}) },
  { name: 'Linkerd, peak EWMA', picker: twoChoices(), load: plainPeakEwma({ initialMs: 30 }) },
  {
    // gRFC A58: a static stride schedule over calls per second / utilization.
    name: 'gRPC, weighted_round_robin',
    picker: weightedRoundRobin(),
    load: reported(),
    says: ({ stats, nowMs, isAsked }) => (isAsked ? undefined : stats.utilization(nowMs)),
  },
];

/** Least in flight, ties drawn at random: how even calls are by chance alone. */
const leastByChance: PickerFactory = (set, _previous, { rng }) => ({
  pick({ avoid }) {
    let best: PickTarget | undefined;
    let ties = 0;
    for (const target of set.targets) {
      if (!target.hasRoom || avoid?.has(target)) continue;
      if (best === undefined || target.inFlight < best.inFlight) {
        best = target;
        ties = 1;
      } else if (target.inFlight === best.inFlight && rng.next() * ++ties < 1) best = target;
    }
    return best;
  },
});

/** What is even by chance alone: the least calls in flight, drawn where several have them. */
export const chance: Strategy = { name: 'chance', picker: leastByChance, load: inFlight() };

/** Those that the tables of evenness compare. */
export const evenContenders: readonly Strategy[] = [stock, ideal, chance, withoutReports, withReports];

/** Those that the tables of the fleet compare. */
export const fleetContenders: readonly Strategy[] = [
  ideal,
  stock,
  inTurn,
  callsInFlight,
  leastInFlight,
  byPeakEwma,
  withoutReports,
  withReports,
];
