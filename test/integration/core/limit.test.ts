import { type ClientRequest, get } from 'node:http';
import { Metadata, status } from '@grpc/grpc-js';
import { fixed, staticEndpoints } from 'evenkeel';
import type { ChannelBalancer } from 'evenkeel/grpc-js';
import { createAgent } from 'evenkeel/node-http';
import { FakeClock } from 'evenkeel/testing';
import { createDispatcher } from 'evenkeel/undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import { Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { connected as channelConnected, type EchoClient, ordersClient, say } from '../grpc-js/support/client.js';
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

  it('undici: no more calls reach the pods than it allows, and the critical one is next', async () => {
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

  it('node:http: no more calls reach the pods than it allows, and the critical one is next', async () => {
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

  const silentStream = async (client: EchoClient, balancer: ChannelBalancer) => {
    // It never answers.
    const silent = client.watch({ text: 'busy' });
    silent.on('error', () => {});
    await until('it runs', () => balancer.snapshot().limit?.running === 1);
    return silent;
  };
  const withPriority = (priority: string): Metadata => {
    const metadata = new Metadata();
    metadata.set('x-request-priority', priority);
    return metadata;
  };

  it('no more calls run than it allows, the critical one is next, and a stream counts until its answer begins', async () => {
    // One connection, so that answers come in the order of the calls.
    await pods.start(1);
    const { client, balancer } = ordersClient({
      resolver: staticEndpoints(pods.endpoints),
      ...limits,
      limit: fixed(1, { shedAfterMs: Number.POSITIVE_INFINITY }),
    });
    await channelConnected(balancer, 1);
    const silent = await silentStream(client, balancer);
    const order: string[] = [];
    const ask = async (name: string, metadata?: Metadata): Promise<void> => {
      await say(client, { text: name, ...(metadata && { metadata }) });
      order.push(name);
    };
    const waiting = [ask('sheddable', withPriority('sheddable'))];
    await until('one waits', () => balancer.snapshot().waiting === 1);
    waiting.push(ask('first'), ask('second'));
    await until('three wait', () => balancer.snapshot().waiting === 3);
    waiting.push(ask('critical', withPriority('critical')));
    const givenUp = client.watch({ text: 'given up' });
    givenUp.on('error', () => {});
    await until('five wait', () => balancer.snapshot().waiting === 5);
    givenUp.cancel();
    await until('four wait', () => balancer.snapshot().waiting === 4);
    silent.cancel();
    await Promise.all(waiting);
    expect(order).toEqual(['critical', 'first', 'second', 'sheddable']);
    await until('nothing runs', () => balancer.snapshot().limit?.running === 0);
    client.close();
  });

  it('turns away calls that waited too long, and those that do not fit into the queue', async () => {
    await pods.start(1);
    const clock = new FakeClock();
    const { client, balancer } = ordersClient({
      resolver: staticEndpoints(pods.endpoints),
      clock,
      limit: fixed(1),
      maxWaiting: 1,
      waitTimeoutMs: 60_000,
    });
    await clock.advanceAsync(0);
    await channelConnected(balancer, 1);
    const silent = await silentStream(client, balancer);
    const old = say(client, { text: 'old' });
    await until('one waits', () => balancer.snapshot().waiting === 1);
    await expect(say(client)).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: expect.stringMatching(/maxWaiting.*EVENKEEL_QUEUE_FULL/),
    });
    clock.advance(100);
    const fresh = say(client, { text: 'fresh' });
    await expect(old).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: expect.stringMatching(/overloaded: 1 of 1 calls are running.*EVENKEEL_OVERLOAD/),
    });
    silent.cancel();
    expect((await fresh).text).toBe('fresh');
    expect(balancer.snapshot().counts.shed).toBe(1);
    client.close();
  });
});
