import { Pool } from 'undici';
import { afterEach, expect, it } from 'vitest';
import { createDispatcher } from '../../../src/adapter/undici/index.js';
import { connected } from '../../support/connected.js';
import { Cluster } from './support/cluster.js';
import { PROOF, report } from './support/proof.js';
import { type Send, Tally, through } from './support/traffic.js';

const IDLE_MS = 50;
const BURST = 25;
const ROUNDS = PROOF ? 400 : 32;
/** Pauses go through these in turn: from well before the pods hang up to just after. In ms. */
const PAUSES = Array.from({ length: 16 }, (_, index) => IDLE_MS - 6 + index * 0.75);

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

  for (let round = 0; round < ROUNDS; round++) {
    // All at once, so that each pod has several connections; then a pause about as long as they live.
    const calls: Promise<void>[] = [];
    for (let index = 0; index < BURST; index++) {
      calls.push(ours.call('GET', `get-${round}-${index}`), ours.call('POST', `post-${round}-${index}`));
      calls.push(theirs.call('GET', `bare-get-${round}-${index}`), theirs.call('POST', `bare-post-${round}-${index}`));
    }
    await Promise.all(calls);
    const endMs = performance.now() + (PAUSES[round % PAUSES.length] as number);
    // Timers count in whole ms: the rest is waited for turn by turn, so that the kernel is read meanwhile.
    await new Promise((resolve) => setTimeout(resolve, endMs - performance.now() - 2));
    while (performance.now() < endMs) await new Promise((resolve) => setImmediate(resolve));
  }

  const connections = await Promise.all(cluster.pods.map(async (pod) => (await pod.stats()).connections));
  report(`idle time-out of ${IDLE_MS} ms`, {
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
  // A race of chance: the same count twice is not the same number.
  const expected = theirs.failed('POST').length;
  expect(ours.failed('POST').length).toBeLessThanOrEqual(expected + 3 * Math.sqrt(expected + 1));
  // It is a race only if connections are lost all the time.
  expect(Math.min(...connections)).toBeGreaterThan(ROUNDS);
  await orders.close();
  await Promise.all(bare.map((pool) => pool.close()));
});
