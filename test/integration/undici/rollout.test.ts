import { createServer } from 'node:net';
import { dns } from 'evenkeel';
import { createDispatcher, type DispatcherOptions, type ServiceDispatcher } from 'evenkeel/undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createCertificate, createDnsServer } from '../../servers/index.js';
import { connected } from '../../support/fixtures/connected.js';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';
import { Cluster, type ClusterPods } from './support/cluster.js';
import { PROOF, report } from './support/proof.js';
import { Traffic, through } from './support/traffic.js';
import { carriesHttp2 } from './support/version.js';

const PODS = PROOF ? 10 : 2;
const CALLERS = PROOF ? 64 : 12;
const ROLLS = PROOF ? 3 : 1;
const LIMIT_MS = 180_000;

const certificate = createCertificate({ hosts: ['orders.shop'] });
const tls = { ca: certificate.cert };

/** Elsewhere than on Linux only 127.0.0.1 can be bound, and headless DNS needs one port at several addresses. */
const severalAddresses = await new Promise<boolean>((resolve) => {
  const server = createServer();
  server.once('error', () => resolve(false));
  server.listen(0, '127.0.3.1', () => server.close(() => resolve(true)));
});

let cluster: Cluster;
let orders: ServiceDispatcher;
let tearDown: (() => Promise<void>)[];

beforeEach(() => {
  tearDown = [];
});
afterEach(async () => {
  await orders.destroy();
  for (const close of tearDown) await close();
  await cluster[Symbol.asyncDispose]();
});

const start = async (pods: ClusterPods, target: string, options: DispatcherOptions): Promise<void> => {
  cluster = await Cluster.start(PODS, pods);
  orders = createDispatcher(target, { resolver: cluster.resolver(), ...options });
  await connected(orders.balancer, PODS);
};

/** Traffic that flows before, during and after the updates. Both sides are counted when it has ended. */
const rollUnderTraffic = async (what: string): Promise<Traffic> => {
  const traffic = new Traffic(CALLERS, through(orders));
  await until('traffic flows', () => traffic.answered > 10 * CALLERS);
  const beganMs = performance.now();
  const before = traffic.calls.length;
  for (let roll = 0; roll < ROLLS; roll++) await cluster.roll();
  const seconds = (performance.now() - beganMs) / 1_000;
  const perSecond = Math.round((traffic.calls.length - before) / seconds);
  const then = traffic.answered;
  await until('traffic flows on', () => traffic.answered > then + 10 * CALLERS);
  await traffic.stop();
  const arrivals = cluster.journal.read();
  report(what, {
    requests: traffic.calls.length,
    'per second': perSecond,
    'pods replaced': ROLLS * PODS,
    'failed GETs': traffic.failed('GET').length,
    'failed POSTs': traffic.failed('POST').length,
    'pods killed': cluster.killed.length,
  });
  expect(traffic.contradictions(arrivals)).toEqual([]);
  return traffic;
};

describe('a rolling update, seen in EndpointSlices', () => {
  it('fails no request of any method', { timeout: LIMIT_MS }, async () => {
    await start({}, 'http://orders.shop:8080', {});
    const traffic = await rollUnderTraffic('rolling update, HTTP/1.1');
    expect(traffic.failed()).toEqual([]);
    expect(cluster.killed).toEqual([]);
    await connected(orders.balancer, PODS);
  });

  it('fails no request of any method over TLS', { timeout: LIMIT_MS }, async () => {
    await start({ tls: certificate }, 'https://orders.shop:8443', { tls });
    const traffic = await rollUnderTraffic('rolling update, TLS');
    expect(traffic.failed()).toEqual([]);
    expect(cluster.killed).toEqual([]);
  });

  it.runIf(carriesHttp2)(
    titleOf('fails no request of any method over HTTP/2, where pods send GOAWAY', carriesHttp2, 'it needs undici 8.10'),
    { timeout: LIMIT_MS },
    async () => {
      await start({ tls: certificate, http2: true }, 'https://orders.shop:8443', { tls, allowH2: true });
      // A hundred streams on one connection.
      expect(orders.balancer.snapshot().endpoints[0]?.capacity).toBe(100);
      const traffic = await rollUnderTraffic('rolling update, HTTP/2');
      expect(traffic.failed()).toEqual([]);
      expect(cluster.killed).toEqual([]);
    },
  );

  it.runIf(carriesHttp2)(
    titleOf(
      'fails no request of any method over HTTP/2 without TLS, which the port announces',
      carriesHttp2,
      'it needs undici 8.10',
    ),
    { timeout: LIMIT_MS },
    async () => {
      await start({ http2: 'only', appProtocol: 'kubernetes.io/h2c' }, 'http://orders.shop:8080', {});
      expect(orders.balancer.snapshot().endpoints[0]?.capacity).toBe(100);
      const traffic = await rollUnderTraffic('rolling update, HTTP/2 in the clear');
      expect(traffic.failed()).toEqual([]);
      expect(cluster.killed).toEqual([]);
    },
  );

  it.runIf(carriesHttp2)(
    titleOf(
      'fails no request of any method when it switches a Service from HTTP/1.1 to HTTP/2 without TLS',
      carriesHttp2,
      'it needs undici 8.10',
    ),
    { timeout: LIMIT_MS },
    async () => {
      await start({}, 'http://orders.shop:8080', { useH2c: true });
      expect(orders.balancer.snapshot().endpoints[0]?.capacity).toBe(-1);
      cluster.startPodsWith({ http2: 'only' });
      const traffic = await rollUnderTraffic('rolling update from HTTP/1.1 to HTTP/2 in the clear');
      expect(traffic.failed()).toEqual([]);
      expect(cluster.killed).toEqual([]);
      expect(orders.balancer.snapshot().endpoints[0]?.capacity).toBe(100);
    },
  );
});

describe.runIf(severalAddresses)(
  titleOf('a rolling update, seen in headless DNS', severalAddresses, 'it needs more addresses than 127.0.0.1'),
  () => {
    const startByName = async (pods: ClusterPods, target: string, options: DispatcherOptions): Promise<void> => {
      let last = 0;
      cluster = await Cluster.start(PODS, pods, () => `127.0.3.${++last}`);
      const names = await createDnsServer({ ttl: 1 });
      tearDown.push(() => names.close());
      cluster.list({
        // A terminating pod is not ready, and leaves DNS at once; clients find out when their answer has aged.
        changed: (listed) =>
          names.kubernetes.set({
            namespace: 'shop',
            name: 'orders',
            pods: listed.map(({ pod, ready, terminating }) => ({ address: pod.host, ready: ready && !terminating })),
          }),
      });
      const resolver = dns({
        host: 'orders.shop.svc.cluster.local',
        port: cluster.pods[0]?.port as number,
        servers: [names.address],
        allowAddresses: ['loopback'],
      });
      orders = createDispatcher(target, { resolver, ...options });
      await connected(orders.balancer, PODS);
    };

    it('fails no GET', { timeout: LIMIT_MS }, async () => {
      await startByName({}, 'http://orders.shop:8080', {});
      const traffic = await rollUnderTraffic('rolling update by headless DNS with a TTL of 1 s, HTTP/1.1');
      expect(traffic.failed('GET')).toEqual([]);
    });

    it('fails no GET over TLS', { timeout: LIMIT_MS }, async () => {
      await startByName({ tls: certificate }, 'https://orders.shop:8443', { tls });
      const traffic = await rollUnderTraffic('rolling update by headless DNS with a TTL of 1 s, TLS');
      expect(traffic.failed('GET')).toEqual([]);
    });

    it.runIf(carriesHttp2)(
      titleOf(
        'fails no GET over HTTP/2, where pods send GOAWAY in the middle of the traffic',
        carriesHttp2,
        'it needs undici 8.10',
      ),
      { timeout: LIMIT_MS },
      async () => {
        await startByName({ tls: certificate, http2: true }, 'https://orders.shop:8443', { tls, allowH2: true });
        const traffic = await rollUnderTraffic('rolling update by headless DNS with a TTL of 1 s, HTTP/2');
        expect(traffic.failed('GET')).toEqual([]);
      },
    );
  },
);
