import { createDispatcher } from 'evenkeel/undici';
import { Pool } from 'undici';
import { afterEach, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import { Cluster } from './support/cluster.js';
import { BURST, IDLE_MS, mayLose, race, worseByMoreThanChance } from './support/keep-alive-race.js';
import { PROOF, report } from './support/proof.js';
import { type Send, Tally, through } from './support/traffic.js';

const ROUNDS = PROOF ? 400 : 32;

let cluster: Cluster;
afterEach(() => cluster[Symbol.asyncDispose]());

it(`pods hang up after ${IDLE_MS} ms: no GET of ${BURST * ROUNDS} fails, no POST of as many arrives twice`, {
  timeout: 300_000,
}, async () => {
  cluster = await Cluster.start(3);
  for (const pod of cluster.pods) await pod.behave({ idleMs: IDLE_MS });
  const orders = createDispatcher('http://orders.shop:8080', { resolver: cluster.resolver() });
  await connected(orders.balancer, 3);
  // What one would write without us: a pool for each pod, in turn.
  const bare = cluster.pods.map(({ port }) => new Pool(`http://127.0.0.1:${port}`, { connections: 32 }));
  let turn = 0;
  const inTurn: Send = (method, id) => through(bare[turn++ % bare.length])(method, id);
  const ours = new Tally(through(orders));
  const theirs = new Tally(inTurn);

  const connections = await race(cluster, { ours, theirs }, ROUNDS, async (endMs) => {
    // Timers count in whole ms: the rest is waited for turn by turn, so that the kernel is read meanwhile.
    await new Promise((resolve) => setTimeout(resolve, endMs - performance.now() - 2));
    while (performance.now() < endMs) await new Promise((resolve) => setImmediate(resolve));
  });
  report(`idle timeout of ${IDLE_MS} ms`, {
    GETs: BURST * ROUNDS,
    'failed GETs': ours.failed('GET').length,
    POSTs: BURST * ROUNDS,
    'failed POSTs': ours.failed('POST').length,
    'failed GETs of bare Pools': theirs.failed('GET').length,
    'failed POSTs of bare Pools': theirs.failed('POST').length,
    connections: connections.reduce((sum, count) => sum + count, 0),
  });
  expect(ours.failed('GET')).toEqual([]);
  expect(ours.contradictions(cluster.journal.read())).toEqual([]);
  const [lost, theirLost] = [ours.failed('POST'), theirs.failed('POST')];
  expect(worseByMoreThanChance(lost, theirLost), `${lost.length} failed, ${theirLost.length} of bare Pools`).toBe(
    false,
  );
  expect(lost.length).toBeLessThanOrEqual(mayLose(theirLost.length, ROUNDS));
  // It is a race only if connections are lost all the time.
  expect(Math.min(...connections)).toBeGreaterThan(ROUNDS);
  await orders.close();
  await Promise.all(bare.map((pool) => pool.close()));
});
