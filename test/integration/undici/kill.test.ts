import { createDispatcher, createFetch } from 'evenkeel/undici';
import { afterEach, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { connected } from '../../support/fixtures/connected.js';
import type { PodOptions } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { Cluster } from './support/cluster.js';
import { PROOF, report } from './support/proof.js';
import { BEGUN, readOn, type Send, Traffic } from './support/traffic.js';
import { carriesHttp2 } from './support/version.js';

const PODS = PROOF ? 10 : 4;
const CALLERS = PROOF ? 64 : 24;
const KILLS = PROOF ? 10 : 1;

let cluster: Cluster;
afterEach(() => cluster[Symbol.asyncDispose]());

interface Client {
  readonly send: Send;
  readonly dispatcher: ReturnType<typeof createDispatcher> | ReturnType<typeof createFetch>;
}

const through = (orders: ReturnType<typeof createDispatcher>): Client => {
  const send: Send = async (method, id) => {
    const { statusCode, body } = await orders.request({
      path: '/',
      method: method as 'GET',
      headers: { 'x-id': id },
      ...(method === 'POST' && { body: 'once' }),
    });
    await readOn(body.text());
    return statusCode;
  };
  return { send, dispatcher: orders };
};

const certificate = createCertificate({ hosts: ['orders.shop'] });
const tls = { ca: certificate.cert };

const clients: [string, (cluster: Cluster) => Client, Omit<PodOptions, 'name'>?][] = [
  ['undici.request', (of) => through(createDispatcher('http://orders.shop:8080', { resolver: of.resolver() }))],
  [
    'global fetch',
    (of) => {
      const fetchOrders = createFetch('http://orders.shop:8080', { resolver: of.resolver() });
      const send: Send = async (method, id) => {
        const init = { method, headers: { 'x-id': id }, ...(method === 'POST' && { body: 'once' }) };
        const response = await fetchOrders('/', init);
        await readOn(response.text());
        return response.status;
      };
      return { send, dispatcher: fetchOrders };
    },
  ],
];
if (carriesHttp2) {
  clients.push([
    'undici.request over HTTP/2',
    (of) => {
      const options = { resolver: of.resolver(), tls, allowH2: true };
      return through(createDispatcher('https://orders.shop:8443', options));
    },
    { tls: certificate, http2: true },
  ]);
  clients.push([
    'undici.request over HTTP/2 in the clear',
    (of) => through(createDispatcher('http://orders.shop:8080', { resolver: of.resolver(), useH2c: true })),
    { http2: 'only' },
  ]);
}

describe('kill -9 of a pod under load', () => {
  for (const [name, open, pods] of clients) {
    it(`${name}: no GET fails whose answer had not begun, no POST arrives twice`, { timeout: 180_000 }, async () => {
      cluster = await Cluster.start(PODS, pods);
      for (const pod of cluster.pods) await pod.behave({ delayMs: 2 });
      const { send, dispatcher } = open(cluster);
      await connected(dispatcher.balancer, PODS);
      const traffic = new Traffic(CALLERS, send);
      let killed = 0;
      const flows = async (): Promise<void> => {
        const then = traffic.answered;
        await until('traffic flows', () => traffic.answered > then + 10 * CALLERS);
      };
      await flows();
      for (; killed < KILLS; killed++) {
        const [victim] = cluster.pods;
        await victim?.kill();
        // For a while nobody says so, then its container is found dead, then another one is there.
        await flows();
        if (victim !== undefined) cluster.remove(victim);
        const fresh = await cluster.addPod();
        await fresh.behave({ delayMs: 2 });
        await flows();
      }
      await traffic.stop();
      const posts = traffic.failed('POST');
      report(`kill -9, ${name}`, {
        requests: traffic.calls.length,
        kills: killed,
        'failed GETs': traffic.failed('GET').length,
        'failed POSTs': posts.length,
      });
      expect(traffic.failed('GET').filter(({ failure }) => !failure?.includes(BEGUN))).toEqual([]);
      // Those that ran on that pod: nobody can know whether it had done its work.
      expect(posts.length).toBeLessThanOrEqual(killed * CALLERS);
      expect(traffic.contradictions(cluster.journal.read())).toEqual([]);
      await dispatcher.close();
    });
  }
});
