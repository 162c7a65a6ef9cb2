import { createServer } from 'node:net';
import { credentials } from '@grpc/grpc-js';
import { roundRobin } from 'evenkeel';
import { expect, it, vi } from 'vitest';
import { createDnsServer } from '../../servers/index.js';
import { titleOf } from '../../support/title-of.js';
import { connected, Echo, ordersClient, say } from './support/client.js';
import { type Pod, Pods } from './support/pods.js';
import { Shop } from './support/shop.js';
import { tally } from './support/spread.js';

// Read by grpc-js when it is loaded: lets its DNS resolver ask the server in the target.
vi.hoisted(() => {
  process.env.GRPC_NODE_USE_ALTERNATIVE_RESOLVER = 'true';
});

/** Elsewhere than on Linux only 127.0.0.1 can be bound, and headless DNS needs one port at several addresses. */
const severalAddresses = await new Promise<boolean>((resolve) => {
  const server = createServer();
  server.once('error', () => resolve(false));
  server.listen(0, '127.0.0.2', () => server.close(() => resolve(true)));
});

it.skipIf(!severalAddresses)(
  titleOf(
    'a new pod gets calls after its slice event; round_robin over headless DNS never finds it',
    severalAddresses,
    'it needs more addresses than 127.0.0.1',
  ),
  async () => {
    await using pods = new Pods();
    await using shop = await Shop.start();
    const dns = await createDnsServer();
    const name = 'orders.shop.svc.cluster.local';
    const publish = (members: readonly Pod[]): void => {
      for (const pod of members) shop.join(pod);
      dns.kubernetes.set({ namespace: 'shop', name: 'orders', pods: members.map(({ host }) => ({ address: host })) });
    };

    const [old] = (await pods.start(1, { host: '127.0.0.2' })) as [Pod];
    const { port } = old;
    publish([old]);
    const ours = ordersClient({ resolver: shop.resolver(), picker: roundRobin() });
    const stock = new Echo(`dns://${dns.address}/${name}:${port}`, credentials.createInsecure(), {
      'grpc.service_config': JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
      'grpc.service_config_disable_resolution': 1,
      'grpc.dns_min_time_between_resolutions_ms': 100,
    });
    await connected(ours.balancer, 1);
    expect((await say(stock)).pod).toBe('pod-0');
    const asked = dns.count(name, 'A');
    expect(asked).toBe(1);

    const [fresh] = (await pods.start(1, { host: '127.0.0.3', port })) as [Pod];
    publish([old, fresh]);
    await connected(ours.balancer, 2);
    const answers: { ours: string[]; stock: string[] } = { ours: [], stock: [] };
    for (let call = 0; call < 500; call++) {
      answers.ours.push((await say(ours.client)).pod);
      answers.stock.push((await say(stock)).pod);
    }
    expect(tally(answers.ours)).toEqual(
      new Map([
        ['pod-0', 250],
        ['pod-1', 250],
      ]),
    );
    expect(tally(answers.stock)).toEqual(new Map([['pod-0', 500]]));
    expect(dns.count(name, 'A')).toBe(asked);
    expect((await fresh.stats()).connections).toBe(1);

    ours.client.close();
    stock.close();
    await dns.close();
  },
);
