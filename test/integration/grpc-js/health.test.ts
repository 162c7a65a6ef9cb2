import { getChannelzHandlers } from '@grpc/grpc-js';
import { activeHealth, type Endpoint, panic, type StageContext, type StageFactory, staticEndpoints } from 'evenkeel';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/until.js';
import { connected, ordersClient, say } from './support/client.js';
import { type Pod, Pods } from './support/pods.js';

/** A stage that does nothing but let a test ask for the health of an endpoint. */
function asking(): { readonly stage: StageFactory; ask(port: number, signal?: AbortSignal): Promise<void> } {
  let context: StageContext | undefined;
  const endpoints = new Map<number, Endpoint>();
  return {
    stage: (given) => {
      context = given;
      return {
        apply: (set) => set,
        track: (endpoint) => {
          endpoints.set(endpoint.port, endpoint);
          return {};
        },
      };
    },
    ask: async (port, signal = new AbortController().signal) =>
      context?.probe(endpoints.get(port) as Endpoint, signal) as Promise<void>,
  };
}

const pods = new Pods();
const open: { close(): void }[] = [];

beforeAll(async () => {
  await pods.start(1);
  await pods.start(1, { noHealth: true });
});
afterAll(() => pods.stop());
afterEach(async () => {
  for (const client of open.splice(0)) client.close();
  await Promise.all(pods.all.map((pod) => pod.set({ health: 1 })));
});

async function orders(healthService?: string) {
  const { stage, ask } = asking();
  const made = ordersClient({
    resolver: staticEndpoints(pods.endpoints),
    stages: [stage],
    ...(healthService !== undefined && { healthService }),
  });
  open.push(made.client);
  await connected(made.balancer, 2);
  const [withHealth, without] = pods.all.map(({ port }) => port) as [number, number];
  return { ask: (signal?: AbortSignal) => ask(withHealth, signal), askWithout: () => ask(without) };
}

it('activeHealth keeps calls away from a server that reports NOT_SERVING', async () => {
  await using both = new Pods();
  const [well, ill] = (await both.start(2)) as [Pod, Pod];
  const { client, balancer } = ordersClient({
    resolver: staticEndpoints(both.endpoints),
    stages: [activeHealth({ intervalMs: 20, unhealthyAfter: 1, healthyAfter: 1 }), panic()],
  });
  open.push(client);
  await connected(balancer, 2);
  const standsBy = (): boolean =>
    balancer.snapshot().endpoints.some(({ address, weight }) => address.endsWith(`:${ill.port}`) && weight === 0);
  await ill.set({ health: 2 });
  await until('it stands by', standsBy);
  for (let call = 0; call < 10; call++) expect((await say(client)).pod).toBe(well.name);
  await ill.set({ health: 1 });
  await until('it is back', () => !standsBy());
  expect((await both.stats()).map(({ connections }) => connections)).toEqual([1, 1]);
});

describe('a health check by grpc.health.v1', () => {
  it('passes while the server serves, over the connection calls use', async () => {
    const before = (await pods.all[0]?.stats())?.connections ?? 0;
    const { ask } = await orders();
    for (let check = 0; check < 3; check++) await ask();
    expect(await pods.all[0]?.stats()).toMatchObject({ connections: before + 1, checks: 3 });
  });

  it('fails with the status that the server answered', async () => {
    const { ask } = await orders();
    await pods.all[0]?.set({ health: 2 });
    await expect(ask()).rejects.toThrow('its health service answered NOT_SERVING');
    await pods.all[0]?.set({ health: 0 });
    await expect(ask()).rejects.toThrow('its health service answered UNKNOWN');
  });

  it('checks the configured service name', async () => {
    await (await orders('test.v1.Echo')).ask();
    await expect((await orders('test.v1.Missing')).ask()).rejects.toThrow('knows no service "test.v1.Missing"');
  });

  it('passes where the server has no health service', async () => {
    await (await orders()).askWithout();
  });

  it('ends when its time is over, and leaves nothing behind', async () => {
    const { ask } = await orders();
    await pods.all[0]?.set({ health: 'hang' });
    const limit = new AbortController();
    const asked = ask(limit.signal);
    limit.abort(new Error('too slow'));
    await expect(asked).rejects.toThrow('too slow');
    await expect(ask(AbortSignal.abort(new Error('no time at all')))).rejects.toThrow('no time at all');
  });

  it('is not listed in channelz once its channel is closed', async () => {
    const listed = (): Promise<number> =>
      new Promise((resolve, reject) => {
        const call = { request: { start_channel_id: '0', max_results: '1000' } };
        (
          getChannelzHandlers() as never as {
            GetTopChannels(call: object, done: (e: unknown, r: { channel: unknown[] }) => void): void;
          }
        ).GetTopChannels(call, (error, answer) => (error ? reject(error) : resolve(answer.channel.length)));
      });
    const before = await listed();
    const { ask, askWithout } = await orders();
    await ask();
    await askWithout();
    expect(await listed()).toBe(before + 3);
    for (const client of open.splice(0)) client.close();
    expect(await listed()).toBe(before);
  });
});
