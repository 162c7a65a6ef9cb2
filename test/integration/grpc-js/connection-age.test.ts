import { credentials } from '@grpc/grpc-js';
import { roundRobin, staticEndpoints } from 'evenkeel';
import { describe, expect, it } from 'vitest';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';
import { PROOF } from '../undici/support/proof.js';
import { connected, Echo, ordersClient, say } from './support/client.js';
import { Pods } from './support/pods.js';
import { Traffic } from './support/traffic.js';

describe('servers that end every connection after a short maximum age', () => {
  it.each([
    ['one connection per pod', 100, 1],
    ['one connection per pod', 400, 1],
    ['three connections per pod', 400, 3],
  ])('%s, %d ms: fail no call', async (_, maxAgeMs, connections) => {
    await using pods = new Pods();
    await pods.start(3, { maxAgeMs, maxAgeGraceMs: 240_000 });
    const { client } = ordersClient({
      resolver: staticEndpoints(pods.endpoints),
      picker: roundRobin(),
      connections,
      waitTimeoutMs: 120_000,
    });
    // A call is on its way in most moments, and the machine is left to others.
    const ours = new Traffic(client, 4, () => (PROOF ? {} : { text: 'wait 5' }));
    await until(
      'each pod has ended its connections many times, under load',
      async () => (await pods.stats()).every(({ connections: ended }) => ended >= 10) && ours.calls > 100,
    );
    const { failures } = await ours.stop();
    client.close();
    expect(failures).toEqual([]);
  });

  // Two clients that race for the same cores say nothing on a machine that has other work.
  it.runIf(PROOF).each([1, 3])(
    titleOf(
      'serve as many calls as to round_robin of grpc-js, with %i connections per pod',
      PROOF,
      'npm run proof -- grpc',
    ),
    async (connections) => {
      await using pods = new Pods();
      await pods.start(3, { maxAgeMs: 400, maxAgeGraceMs: 240_000 });
      const { client } = ordersClient({
        resolver: staticEndpoints(pods.endpoints),
        picker: roundRobin(),
        connections,
      });
      const addresses = pods.endpoints.map(({ address, port }) => `${address}:${port}`);
      const stock = new Echo(`ipv4:${addresses.join(',')}`, credentials.createInsecure(), {
        'grpc.service_config': JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
        'grpc.use_local_subchannel_pool': 1,
      });
      const ours = new Traffic(client, 4);
      const theirs = new Traffic(stock, 4);
      await until('both were served many calls', () => Math.min(ours.calls, theirs.calls) > 2_000);
      const [mine, other] = await Promise.all([ours.stop(), theirs.stop()]);
      client.close();
      stock.close();
      expect(mine.failures).toEqual([]);
      expect(mine.calls).toBeGreaterThan(other.calls / 2);
    },
  );

  it('fail no call that all of them refused at once, even with more calls than streams', async () => {
    await using pods = new Pods();
    await pods.start(2, { maxAgeMs: 700, maxAgeGraceMs: 240_000, maxStreams: 100 });
    for (const pod of pods.all) await pod.set({ delayMs: 20 });
    // What a busy machine takes to connect again is no failure.
    const { client, balancer } = ordersClient({ resolver: staticEndpoints(pods.endpoints), waitTimeoutMs: 120_000 });
    await connected(balancer, 2);
    const traffic = new Traffic(client, 350);
    await until('each has ended its connections several times', async () =>
      (await pods.stats()).every(({ connections }) => connections >= 6),
    );
    const { failures, calls } = await traffic.stop();
    expect(failures).toEqual([]);
    expect(calls).toBeGreaterThan(700);
    client.close();
  });

  it('serve a call at once after a pause of many such ages', async () => {
    await using pods = new Pods();
    await pods.start(3, { maxAgeMs: 250 });
    const { client, balancer } = ordersClient({ resolver: staticEndpoints(pods.endpoints) });
    await connected(balancer, 3);
    await until('all connections were ended many times', async () =>
      (await pods.stats()).every(({ connections }) => connections >= 8),
    );
    const { endpoints } = balancer.snapshot();
    expect(endpoints.filter(({ state }) => state === 'backoff')).toEqual([]);
    expect((await say(client)).text).toBe('hello');
    client.close();
  });
});
