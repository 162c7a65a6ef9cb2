/**
 * A fleet over gRPC: evenkeel beside grpc-js's own round_robin, and beside pick_first through kube-proxy.
 *
 *   node test/bench/fleet-grpc.bench.mjs [--quick] [--work=ms]
 */
import { arrivals, clientsAndPods, Fleet, rounds, steady } from './lib/fleet.mjs';

const DEFAULT = 'evenkeel';
const fleet = new Fleet('grpc', [
  { name: 'grpc-js round_robin', kind: 'roundRobin' },
  { name: DEFAULT, kind: 'default' },
  { name: 'grpc-js pick_first through kube-proxy', kind: 'stock' },
]);
const { section } = await fleet.play({ ...steady, wanted: { [DEFAULT]: 0.8 } });
console.log(`## A fleet over gRPC: ${clientsAndPods}

As over HTTP: pods of one core, which their calls share, and which are real HTTP/2 servers that answer when a computed core would be done. ${arrivals}
round_robin has a connection to each pod; pick_first has one connection for all calls of a client, for which a pod is drawn anew for each of ${rounds}.
A client's calls are the work of one core, which is all that pick_first's pod has. What has no answer 20 s after the last call counts as failed. Ratios are medians of the rounds with their 95 % intervals, over
round_robin. That against itself shows how much is chance.

${section}
`);
