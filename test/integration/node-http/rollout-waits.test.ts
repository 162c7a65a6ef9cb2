import type { ObserverEvents } from 'evenkeel';
import { createAgent } from 'evenkeel/node-http';
import { afterEach, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import type { Cluster } from '../undici/support/cluster.js';
import { certificate, rolloutWaits, startRollout } from '../undici/support/rollout-waits.js';
import { over } from './support/traffic.js';

let cluster: Cluster;
afterEach(() => cluster[Symbol.asyncDispose]());

/**
 * A request that waits for a connection to a pod that has left would wait for the connect timeout. None does, so the
 * slowest requests of a rolling update are those of any other time.
 */
it('in a rolling update no request waits for a connection to a pod that leaves', { timeout: 300_000 }, async () => {
  cluster = await startRollout();
  const attempts: ObserverEvents['attemptEnded'][] = [];
  const orders = createAgent('https://orders.shop:8443', {
    resolver: cluster.resolver(),
    tls: { ca: certificate.cert },
    // So long that nothing but the slice moves what waits, however busy the machine.
    pool: { connectTimeoutMs: 60_000 },
    observer: { attemptEnded: (event) => attempts.push(event) },
  });
  await connected(orders.balancer, cluster.pods.length);
  const send = over(orders, 'https://orders.shop:8443');
  const { failures, held, moved, waited } = await rolloutWaits(cluster, { send, attempts });
  expect(failures).toEqual([]);
  expect(waited).toEqual([]);
  // It is a test only if there was something to wait for.
  expect(held).toBeGreaterThan(0);
  expect(moved).toBeGreaterThanOrEqual(held);
  await orders.close();
});
