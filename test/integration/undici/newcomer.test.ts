import { createDispatcher, type ServiceDispatcher } from 'evenkeel/undici';
import { afterEach, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import type { Pod } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { Cluster } from './support/cluster.js';
import { machineMs, PROOF, quantile, report } from './support/proof.js';
import { Traffic, through } from './support/traffic.js';

const PODS = 3;
const NEWCOMERS = PROOF ? 20 : 2;

let cluster: Cluster;
let orders: ServiceDispatcher;
afterEach(async () => {
  await orders.destroy();
  await cluster[Symbol.asyncDispose]();
});

describe('a new pod', () => {
  it('gets its first request right after its slice says that it is ready, and none before', async () => {
    cluster = await Cluster.start(PODS);
    orders = createDispatcher('http://orders.shop:8080', { resolver: cluster.resolver() });
    await connected(orders.balancer, PODS);
    const traffic = new Traffic(8, through(orders));
    await until('traffic flows', () => traffic.answered > 200);
    const readyMs = new Map<string, number>();
    for (let count = 0; count < NEWCOMERS; count++) {
      const fresh: Pod = await cluster.startPod();
      cluster.set(fresh, { ready: false });
      const then = traffic.answered;
      await until('traffic flows', () => traffic.answered > then + 200);
      readyMs.set(fresh.name, machineMs());
      cluster.set(fresh, { ready: true });
      await until('it has a request', async () => (await fresh.stats()).requests > 0);
    }
    await traffic.stop();
    expect(traffic.failed()).toEqual([]);

    // The pods' own count of who came when, by the machine's clock.
    const firstMs = new Map<string, number>();
    for (const [, arrivals] of cluster.journal.read()) {
      for (const { pod, atMs } of arrivals) firstMs.set(pod, Math.min(atMs, firstMs.get(pod) ?? atMs));
    }
    const delays = [...readyMs].map(([name, atMs]) => (firstMs.get(name) as number) - atMs);
    report('from the slice event to the first request of a new pod', {
      pods: delays.length,
      median: `${quantile(delays, 0.5).toFixed(1)} ms`,
      largest: `${Math.max(...delays).toFixed(1)} ms`,
    });
    expect(Math.min(...delays)).toBeGreaterThan(0);
    if (PROOF) expect(quantile(delays, 0.5)).toBeLessThanOrEqual(100);
  });
});
