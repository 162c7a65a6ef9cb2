import { Agent } from 'node:http';
import { roundRobin } from 'evenkeel';
import { type AgentOptions, createAgent, type HttpServiceAgent } from 'evenkeel/node-http';
import { afterEach, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { connected } from '../../support/fixtures/connected.js';
import { heard } from '../../support/fixtures/heard.js';
import type { Pod, PodOptions } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { Cluster } from '../undici/support/cluster.js';
import { OtherService } from '../undici/support/other-service.js';
import { PROOF, report } from '../undici/support/proof.js';
import { type Send, Tally, Traffic } from '../undici/support/traffic.js';
import { running, send } from './support/request.js';
import { over } from './support/traffic.js';

const PODS = PROOF ? 10 : 2;
const CALLERS = PROOF ? 64 : 12;
const ROLLS = PROOF ? 3 : 1;
const LIMIT_MS = 180_000;
const plain = 'http://orders.shop:8080';
const secure = 'https://orders.shop:8443';

const authority = createCertificate({ commonName: 'evenkeel test authority', hosts: [] });
const certificate = createCertificate({ hosts: ['orders.shop'], issuer: authority });
const tls = { ca: authority.cert };

let cluster: Cluster;
let orders: HttpServiceAgent;

afterEach(async () => {
  orders.destroy();
  await orders.close();
  await cluster[Symbol.asyncDispose]();
});

const start = async (
  count: number,
  target: string = plain,
  pods: Omit<PodOptions, 'name'> = {},
  options: AgentOptions = {},
): Promise<void> => {
  cluster = await Cluster.start(count, pods);
  orders = createAgent(target, { resolver: cluster.resolver(), ...options });
  await connected(orders.balancer, count);
};
const flows = async (traffic: Tally, count = 10 * CALLERS): Promise<void> => {
  const then = traffic.answered;
  await until('traffic flows', () => traffic.answered > then + count);
};

describe('the spread', () => {
  const requestsPerPod = async (): Promise<number[]> =>
    Promise.all(cluster.pods.map(async (pod) => (await pod.stats()).requests));

  it('with round robin is even, and stays so when pods come and go', { timeout: LIMIT_MS }, async () => {
    await start(3, plain, {}, { picker: roundRobin() });
    const share = async (count: number): Promise<number> => {
      const before = await requestsPerPod();
      let left = count;
      const callers = Array.from({ length: CALLERS }, async () => {
        while (left-- > 0) await send(orders, `${plain}/bytes/10`);
      });
      await Promise.all(callers);
      const after = await requestsPerPod();
      const perPod = after.map((requests, index) => requests - (before[index] as number));
      return Math.max(...perPod) / (perPod.reduce((sum, requests) => sum + requests) / perPod.length);
    };
    const requests = PROOF ? 100_000 : 600;
    const figures: Record<string, string> = {};
    const measure = async (what: string): Promise<void> => {
      const evenness = await share(requests);
      figures[what] = evenness.toFixed(4);
      expect(evenness, what).toBeLessThanOrEqual(1.01);
    };
    await measure('3 pods');
    await cluster.addPod();
    await cluster.addPod();
    await connected(orders.balancer, 5);
    await measure('5 pods');
    await cluster.endPod(cluster.pods[0] as Pod);
    await connected(orders.balancer, 4);
    await measure('4 pods');
    report('max/mean over round robin, node:http', figures);
  });
});

describe('a rolling update, seen in EndpointSlices', () => {
  const roll = async (target: string, what: string): Promise<void> => {
    const traffic = new Traffic(CALLERS, over(orders, target));
    await flows(traffic);
    for (let turn = 0; turn < ROLLS; turn++) await cluster.roll();
    await flows(traffic);
    await traffic.stop();
    report(`rolling update, node:http, ${what}`, {
      requests: traffic.calls.length,
      'pods replaced': ROLLS * PODS,
      'failed GETs': traffic.failed('GET').length,
      'failed POSTs': traffic.failed('POST').length,
      'pods killed': cluster.killed.length,
    });
    expect(traffic.contradictions(cluster.journal.read())).toEqual([]);
    expect(traffic.failed()).toEqual([]);
    expect(cluster.killed).toEqual([]);
    await until('nothing runs', () => running(orders) === 0);
  };

  it('fails no request of any method', { timeout: LIMIT_MS }, async () => {
    await start(PODS);
    await roll(plain, 'HTTP');
  });

  it('fails no request of any method over TLS', { timeout: LIMIT_MS }, async () => {
    await start(PODS, secure, { tls: certificate }, { tls });
    await roll(secure, 'TLS');
  });
});

describe('kill -9 of a pod under load', () => {
  it('fails no more requests than keep-alive Agents that learn of its death at once', {
    timeout: LIMIT_MS,
  }, async () => {
    await start(PODS);
    // What one would write without us, and better informed than we are: it leaves the pod out in the moment of its death.
    const bare = new Agent({ keepAlive: true });
    const dying = cluster.pods[0] as Pod;
    let origins = cluster.pods.map(({ port }) => `http://127.0.0.1:${port}`);
    let turn = 0;
    const inTurn: Send = (method, id) => over(bare, origins[turn++ % origins.length] as string)(method, `bare-${id}`);
    const ours = new Traffic(CALLERS, over(orders, plain));
    const theirs = new Traffic(CALLERS, inTurn);
    await flows(ours);
    await flows(theirs);
    const others = origins.filter((origin) => !origin.endsWith(`:${dying.port}`));
    const killed = dying.kill();
    origins = others;
    await killed;
    await flows(ours);
    await Promise.all([ours.stop(), theirs.stop()]);
    const failures = ours.failed();
    report('kill -9 of one pod, node:http', {
      pods: PODS,
      callers: CALLERS,
      failed: failures.length,
      'failed over a keep-alive Agent': theirs.failed().length,
    });
    // Only what was sent to it, at most one request per caller, can be lost: Node cannot send it again.
    for (const { failure } of failures) expect(failure).toMatch(/ECONNRESET|EPIPE/);
    expect(failures.length).toBeLessThanOrEqual(CALLERS);
    expect(failures.length).toBeLessThanOrEqual(
      theirs.failed().length + CALLERS / PODS + 3 * Math.sqrt(CALLERS / PODS),
    );
    expect(ours.contradictions(cluster.journal.read())).toEqual([]);
    bare.destroy();
  });

  it('fails no request that was not yet sent', { timeout: LIMIT_MS }, async () => {
    await start(3);
    const dying = cluster.pods[0] as Pod;
    const tally = new Tally(over(orders, plain));
    await Promise.all(Array.from({ length: 30 }, (_, index) => tally.call('GET', `warm-${index}`)));
    await dying.kill();
    // Nobody has told us: the slices still name it. What the kernel knows is read before the first request.
    await heard(dying);
    await Promise.all(Array.from({ length: 60 }, (_, index) => tally.call('POST', `after-${index}`)));
    expect(tally.failed()).toEqual([]);
    expect(tally.contradictions(cluster.journal.read())).toEqual([]);
  });
});

describe('the address of one of our pods now belongs to another Service', () => {
  it.each([
    ['plain', plain, {}, {}],
    ['TLS', secure, { tls: certificate }, { tls }],
  ] as const)('%s: none of our requests gets there once its slice said so', async (_how, target, pods, options) => {
    await start(3, target, pods, options);
    const dying = cluster.pods[1] as Pod;
    const traffic = new Traffic(12, over(orders, target));
    await flows(traffic, 200);
    await dying.kill();
    const foreign = createCertificate({ hosts: ['billing.shop'], issuer: authority });
    await using other = await OtherService.start({ port: dying.port, ...('tls' in pods && { tls: foreign }) });
    await until('we try its address again', async () => (await other.counts()).connections > 0);
    await flows(traffic, 200);
    cluster.set(dying, { ready: false, terminating: true });
    await until('the slice event is applied', () => {
      const members = orders.balancer.snapshot().endpoints.filter(({ state }) => !/draining|closed/.test(state));
      return members.length === 2;
    });
    const begun = traffic.calls.length;
    await until('all that ran then has ended', () =>
      traffic.calls.slice(0, begun).every(({ endedMs }) => !Number.isNaN(endedMs)),
    );
    const told = await other.counts();
    await flows(traffic, 200);
    cluster.remove(dying);
    await flows(traffic, 200);
    await traffic.stop();
    expect(await other.counts()).toEqual(told);
    if ('tls' in pods) expect(told.requestBytes).toBe(0);
  });
});
