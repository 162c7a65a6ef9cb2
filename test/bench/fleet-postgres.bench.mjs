/**
 * A fleet that reads from PostgreSQL: evenkeel beside a pg.Pool per server in turn, and beside one pg.Pool through kube-proxy.
 *
 *   node test/bench/fleet-postgres.bench.mjs [--quick] [--work=ms]
 */
import { arrivals, clientsAndPods, Fleet, rounds, steady } from './lib/fleet.mjs';

const DEFAULT = 'evenkeel';
const fleet = new Fleet('postgres', [
  { name: 'a pg.Pool per server, in turn', kind: 'poolPerServer' },
  { name: DEFAULT, kind: 'default' },
  { name: 'one pg.Pool through kube-proxy', kind: 'stock' },
]);
const { section } = await fleet.play({ ...steady, wanted: { [DEFAULT]: 0.8 } });
console.log(`## A fleet that reads from PostgreSQL: ${clientsAndPods}

As over HTTP: servers of one core, which their statements share. They speak PostgreSQL's protocol and answer when a computed core would be done. ${arrivals}
One pool to one address draws a server for each of its connections, anew for each of ${rounds}. Ratios are medians of the rounds with their
95 % intervals, over a pool per server. That against itself shows how much is chance.

${section}
`);
