import { Agent } from 'node:http';
import { createAgent } from 'evenkeel/node-http';
import { afterEach, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import { Cluster } from '../undici/support/cluster.js';
import { BURST, IDLE_MS, mayLose, race, worseByMoreThanChance } from '../undici/support/keep-alive-race.js';
import { PROOF, report } from '../undici/support/proof.js';
import { type Send, Tally } from '../undici/support/traffic.js';
import { over } from './support/traffic.js';

const ROUNDS = PROOF ? 400 : 60;

let cluster: Cluster;
afterEach(() => cluster[Symbol.asyncDispose]());

it(`pods hang up after ${IDLE_MS} ms: no more requests fail than with keep-alive Agents, and none arrives twice`, {
  timeout: 300_000,
}, async () => {
  cluster = await Cluster.start(3);
  for (const pod of cluster.pods) await pod.behave({ idleMs: IDLE_MS });
  const orders = createAgent('http://orders.shop:8080', { resolver: cluster.resolver() });
  await connected(orders.balancer, 3);
  // What one would write without us: a keep-alive Agent, and the pods in turn.
  const bare = new Agent({ keepAlive: true });
  const origins = cluster.pods.map(({ port }) => `http://127.0.0.1:${port}`);
  let turn = 0;
  const inTurn: Send = (method, id) => over(bare, origins[turn++ % origins.length] as string)(method, id);
  const ours = new Tally(over(orders, 'http://orders.shop:8080'));
  const theirs = new Tally(inTurn);

  const connections = await race(cluster, { ours, theirs }, ROUNDS, async (endMs) => {
    // The last stretch is spent busy, as in a process that has work: what the pods have said meanwhile is not read yet.
    await new Promise((resolve) => setTimeout(resolve, endMs - performance.now() - 3));
    while (performance.now() < endMs);
  });
  report(`idle timeout of ${IDLE_MS} ms, node:http`, {
    GETs: BURST * ROUNDS,
    POSTs: BURST * ROUNDS,
    'failed GETs': ours.failed('GET').length,
    'failed POSTs': ours.failed('POST').length,
    'failed GETs of a keep-alive Agent': theirs.failed('GET').length,
    'failed POSTs of a keep-alive Agent': theirs.failed('POST').length,
    connections: connections.reduce((sum, count) => sum + count, 0),
  });
  expect(ours.contradictions(cluster.journal.read())).toEqual([]);
  const [lost, theirLost] = [ours.failed(), theirs.failed()];
  expect(worseByMoreThanChance(lost, theirLost), `${lost.length} failed, ${theirLost.length} of theirs`).toBe(false);
  expect(lost.length).toBeLessThanOrEqual(mayLose(theirLost.length, ROUNDS));
  // It is a race only if connections are lost all the time.
  expect(Math.min(...connections)).toBeGreaterThan(ROUNDS);
  await orders.close();
  bare.destroy();
});
