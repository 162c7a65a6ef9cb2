import { credentials } from '@grpc/grpc-js';
import { roundRobin, staticEndpoints } from 'evenkeel';
import { describe, expect, it } from 'vitest';
import { until } from '../../support/until.js';
import { connected, Echo, ordersClient, say } from './support/client.js';
import { Pods } from './support/pods.js';
import { Traffic } from './support/traffic.js';

/**
 * How a call ends that two servers in a row refused behind their GOAWAY: grpc-js repeats it once, whatever the policy. The
 * shorter the age, the likelier it is. On Node 26 the write can be what fails, for round_robin too.
 */
const REFUSED_TWICE = /^14: (Stream refused by server|Write error: .* NGHTTP2_REFUSED_STREAM)$/;

describe('servers that end every connection after a short maximum age', () => {
  it.each([
    ['one connection per pod', 100, 1],
    ['one connection per pod', 400, 1],
    ['three connections per pod', 400, 3],
  ])('%s, %d ms: fail no more calls than with round_robin of grpc-js', async (_, maxAgeMs, connections) => {
    await using pods = new Pods();
    await pods.start(3, { maxAgeMs, maxAgeGraceMs: 20_000 });
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
    await until(
      'each pod has ended its connections many times, under load',
      async () =>
        (await pods.stats()).every(({ connections }) => connections >= 20) && Math.min(ours.calls, theirs.calls) > 300,
    );
    const [mine, other] = await Promise.all([ours.stop(), theirs.stop()]);
    client.close();
    stock.close();

    expect(mine.failures.filter((failure) => !REFUSED_TWICE.test(failure))).toEqual([]);
    // Chance has a part in who is refused twice.
    expect(mine.failures.length).toBeLessThanOrEqual(2 * other.failures.length + 10);
    expect(mine.calls).toBeGreaterThan(other.calls / 2);
  });

  it('serve a call at once when nobody called for many such ages', async () => {
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
