import { once } from 'node:events';
import type { SubchannelState } from 'evenkeel';
import { createDispatcher, type DispatcherOptions, type ServiceDispatcher } from 'evenkeel/undici';
import { afterEach, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import type { Pod } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { Cluster } from './support/cluster.js';
import { machineMs, PROOF, report } from './support/proof.js';
import { Traffic, through } from './support/traffic.js';

let cluster: Cluster;
let orders: ServiceDispatcher;
/** When each endpoint came to a state last, by address and state. */
let reached: Map<string, number>;
/** Every state after the first `ready` that is not it. */
let notReady: SubchannelState[];

const start = async (pods: number, options: DispatcherOptions = {}): Promise<void> => {
  reached = new Map();
  notReady = [];
  cluster = await Cluster.start(pods);
  orders = createDispatcher('http://orders.shop:8080', {
    resolver: cluster.resolver(),
    observer: {
      subchannelChanged: ({ endpoint, from, to }) => {
        reached.set(`${endpoint.address}:${endpoint.port} ${to}`, machineMs());
        if (from === 'ready') notReady.push(to);
      },
    },
    ...options,
  });
  await connected(orders.balancer, pods);
};
afterEach(async () => {
  await orders.destroy();
  await cluster[Symbol.asyncDispose]();
});

const drainedMs = ({ host, port }: Pod): number | undefined => reached.get(`${host}:${port} draining`);
const inFlightOn = ({ host, port }: Pod): number =>
  orders.balancer.snapshot().endpoints.find(({ address }) => address === `${host}:${port}`)?.inFlight ?? 0;

describe('a pod whose slice says terminating', () => {
  it('gets no new request from the moment the slice is applied', async () => {
    await start(3);
    const traffic = new Traffic(24, through(orders));
    await until('traffic flows', () => traffic.answered > 500);
    const [leaving] = cluster.pods as [Pod];
    cluster.set(leaving, { ready: true, terminating: true });
    await until('it drains', () => drainedMs(leaving) !== undefined);
    const then = traffic.answered;
    await until('traffic flows on', () => traffic.answered > then + 1_000);
    await traffic.stop();
    expect(traffic.failed()).toEqual([]);
    const startedMs = new Map(traffic.calls.map((call) => [call.id, call.startedMs]));
    const late = [...cluster.journal.read()].filter(
      ([id, arrivals]) =>
        arrivals.some(({ pod }) => pod === leaving.name) &&
        (startedMs.get(id) as number) > (drainedMs(leaving) as number),
    );
    expect(late).toEqual([]);
    // Its connections are given up with its last request; the pod can leave at once.
    await until('it has no connection', async () => (await leaving.stats()).open === 0);
  });

  it('finishes its running requests: downloads with trailers, uploads, early hints, upgraded connections', async () => {
    await start(2);
    const [leaving, staying] = cluster.pods as [Pod, Pod];
    // All goes to the one that will leave.
    cluster.set(staying, { ready: false });
    await connected(orders.balancer, 1);

    const download = orders.request({ path: '/drip/20/50', method: 'GET' });
    let sendRest = (): void => {};
    const rest = new Promise<void>((resolve) => {
      sendRest = resolve;
    });
    const upload = orders.request({
      path: '/echo',
      method: 'POST',
      body: (async function* () {
        yield Buffer.from('one ');
        await rest;
        yield Buffer.from('two');
      })() as never,
    });
    const informed: number[] = [];
    const hints = orders.request({
      path: '/hints',
      method: 'GET',
      onInfo: ({ statusCode }: { statusCode: number }) => informed.push(statusCode),
    } as never);
    const { socket } = await orders.upgrade({ path: '/', protocol: 'echo' });
    await until('all of them run', async () => inFlightOn(leaving) >= 3 && (await leaving.stats()).requests >= 4);

    cluster.set(staying, { ready: true });
    const gone = cluster.endPod(leaving);
    await until('it drains', () => drainedMs(leaving) !== undefined);
    const { body } = await orders.request({ path: '/', method: 'GET' });
    expect(await body.json()).toMatchObject({ pod: staying.name });

    socket.write('still here');
    expect(String((await once(socket, 'data'))[0])).toBe('still here');
    sendRest();
    const uploaded = await upload;
    expect(await uploaded.body.text()).toBe('one two');
    expect(uploaded.trailers).toEqual({ 'x-length': '7' });
    const downloaded = await download;
    expect((await downloaded.body.text()).trimEnd().split('\n')).toHaveLength(20);
    expect(downloaded.trailers).toEqual({ 'x-lines': '20' });
    const hinted = await hints;
    expect(await hinted.body.text()).toBe('after the hints');
    expect(informed).toEqual([103]);
    socket.end();
    await gone;
    expect(cluster.killed).toEqual([]);
  });
});

describe('connections that reach their maximum age', () => {
  it('are replaced before they close: no request fails, and no pod is ever without one', async () => {
    // Between half and one and a half seconds each; a minute of that in a proof.
    const rounds = PROOF ? 60 : 3;
    await start(3, { pool: { maxConnectionAgeMs: 1_000 } });
    const traffic = new Traffic(12, through(orders));
    const [pod] = cluster.pods as [Pod];
    const connections = async (): Promise<number> => (await pod.stats()).connections;
    await until('traffic flows', () => traffic.answered > 500);
    const before = await connections();
    await until('they were replaced several times', async () => (await connections()) >= before + rounds, 100_000);
    await traffic.stop();
    report('connections replaced by age', {
      requests: traffic.calls.length,
      failed: traffic.failed().length,
      'connections of one pod': await connections(),
    });
    expect(traffic.failed()).toEqual([]);
    expect(traffic.contradictions(cluster.journal.read())).toEqual([]);
    expect(notReady).toEqual([]);
  });
});

describe('close', () => {
  it('lets running requests finish until its time is over, then cuts them with a code', async () => {
    await start(2, { pool: { drainTimeoutMs: 1_500 }, connections: 2 });
    const failure = async (answer: Promise<unknown>): Promise<string> => {
      const error = await answer.then(
        () => ({ code: 'none' }),
        (caught: unknown) => caught as { code: string },
      );
      return error.code;
    };
    const slow = orders.request({ path: '/drip/5/20', method: 'GET' });
    const hanging = [1, 2, 3].map(() => failure(orders.request({ path: '/hang', method: 'GET' })));
    await until('all of them run', () => cluster.pods.reduce((sum, pod) => sum + inFlightOn(pod), 0) === 4);
    const waiting = failure(orders.request({ path: '/hang', method: 'POST', body: 'x' }));
    const stillWaiting = failure(orders.request({ path: '/', method: 'GET' }));
    await until('two wait for room', () => orders.balancer.snapshot().waiting === 2);
    const closed = orders.close();
    expect(await failure(orders.request({ path: '/', method: 'GET' }))).toBe('EVENKEEL_CLOSED');
    const { body, trailers } = await slow;
    expect((await body.text()).trimEnd().split('\n')).toHaveLength(5);
    expect(trailers).toEqual({ 'x-lines': '5' });
    // The first that waited took its place, the second never got one.
    expect(await waiting).toBe('UND_ERR_DESTROYED');
    expect(await stillWaiting).toBe('EVENKEEL_CLOSED');
    expect(await Promise.all(hanging)).toEqual(new Array(3).fill('UND_ERR_DESTROYED'));
    await closed;
    for (const pod of cluster.pods) {
      await until('every connection is closed', async () => (await pod.stats()).open === 0);
    }
  });

  it('lets an earlier request still get a pod, as an Agent does', async () => {
    cluster = await Cluster.start(1);
    orders = createDispatcher('http://orders.shop:8080', { resolver: cluster.resolver() });
    const answer = orders.request({ path: '/', method: 'POST', body: 'once' });
    const closed = orders.close();
    const { statusCode, body } = await answer;
    await body.dump();
    expect(statusCode).toBe(200);
    await closed;
  });
});
