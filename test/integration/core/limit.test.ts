import { type ClientRequest, get } from 'node:http';
import { status } from '@grpc/grpc-js';
import { fixed, staticEndpoints } from 'evenkeel';
import { createAgent } from 'evenkeel/node-http';
import { createDispatcher } from 'evenkeel/undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connected } from '../../support/connected.js';
import { Pods } from '../../support/pods.js';
import { until } from '../../support/until.js';
import { connected as channelConnected, ordersClient, say } from '../grpc-js/support/client.js';
import { Pods as GrpcPods } from '../grpc-js/support/pods.js';

const origin = 'http://orders.shop:8080';
const limits = { limit: fixed(2, { shedAfterMs: Number.POSITIVE_INFINITY }), waitTimeoutMs: 60_000 };

describe('a limit over HTTP', () => {
  let pods: Pods;
  const arrived = async (): Promise<number> => {
    const stats = await Promise.all(pods.all.map((pod) => pod.stats()));
    return stats.reduce((sum, { requests }) => sum + requests, 0);
  };

  beforeEach(async () => {
    pods = await Pods.start(3);
    await Promise.all(pods.all.map((pod) => pod.behave({ hang: true })));
  });
  afterEach(() => pods[Symbol.asyncDispose]());

  it('undici: no more reach the pods than it allows, and the critical one is next', async () => {
    const orders = createDispatcher(origin, {
      resolver: staticEndpoints(pods.endpoints),
      priority: ({ path }) => (path === '/critical' ? 'critical' : undefined),
      ...limits,
    });
    await connected(orders.balancer, 3);
    const callers = ['/1', '/2', '/3', '/critical'].map((path) => {
      const controller = new AbortController();
      const ended = orders.request({ path, method: 'GET', signal: controller.signal }).then(
        () => path,
        (error: Error) => error.name,
      );
      return { controller, ended };
    });
    await until('two are running', async () => (await arrived()) === 2);
    expect(orders.balancer.snapshot()).toMatchObject({ waiting: 2, limit: { max: 2, running: 2 } });
    await Promise.all(pods.all.map((pod) => pod.behave({ hang: false })));
    callers[0]?.controller.abort();
    expect(await callers[3]?.ended).toBe('/critical');
    expect(await callers[2]?.ended).toBe('/3');
    callers[1]?.controller.abort();
    await Promise.all(callers.map(({ ended }) => ended));
    await until('nothing runs', () => orders.balancer.snapshot().limit?.running === 0);
    await orders.close();
  });

  it('node:http: no more reach the pods than it allows, and the critical one is next', async () => {
    const agent = createAgent(origin, {
      resolver: staticEndpoints(pods.endpoints),
      priority: ({ path }) => (path === '/critical' ? 'critical' : 'default'),
      ...limits,
    });
    await connected(agent.balancer, 3);
    const callers = ['/1', '/2', '/3', '/critical'].map((path) => {
      let request!: ClientRequest;
      const ended = new Promise<string>((resolve) => {
        request = get(`${origin}${path}`, { agent }, (answer) => answer.resume().on('end', () => resolve(path)));
        request.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.name));
      });
      return { request, ended };
    });
    await until('two are running', async () => (await arrived()) === 2);
    expect(agent.balancer.snapshot()).toMatchObject({ waiting: 2, limit: { max: 2, running: 2 } });
    await Promise.all(pods.all.map((pod) => pod.behave({ hang: false })));
    callers[0]?.request.destroy();
    expect(await callers[3]?.ended).toBe('/critical');
    expect(await callers[2]?.ended).toBe('/3');
    callers[1]?.request.destroy();
    await Promise.all(callers.map(({ ended }) => ended));
    await until('nothing runs', () => agent.balancer.snapshot().limit?.running === 0);
    await agent.close();
  });
});

describe('a limit over gRPC', () => {
  let pods: GrpcPods;

  beforeEach(() => {
    pods = new GrpcPods();
  });
  afterEach(() => pods.stop());

  it('lets as many wait as may run, and turns the others away; a stream counts until its answer begins', async () => {
    await pods.start(2);
    const { client, balancer } = ordersClient({
      resolver: staticEndpoints(pods.endpoints),
      ...limits,
      limit: fixed(1),
    });
    await channelConnected(balancer, 2);
    // It never answers.
    const silent = client.watch({ text: 'busy' });
    silent.on('error', () => {});
    await until('it runs', () => balancer.snapshot().limit?.running === 1);
    const waiting = say(client);
    await until('one waits', () => balancer.snapshot().waiting === 1);
    await expect(say(client)).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: expect.stringMatching(/overloaded: 1 of 1 calls are running.*EVENKEEL_OVERLOAD/),
    });
    silent.cancel();
    await waiting;
    await until('nothing runs', () => balancer.snapshot().limit?.running === 0);
    client.close();
  });
});
