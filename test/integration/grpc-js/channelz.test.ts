import { getChannelzHandlers, status } from '@grpc/grpc-js';
import { roundRobin } from 'evenkeel';
import { FakeResolver } from 'evenkeel/testing';
import { afterAll, afterEach, expect, it } from 'vitest';
import { until } from '../../support/until.js';
import { connected, ordersClient, say } from './support/client.js';
import { Pods } from './support/pods.js';

interface Counted {
  readonly state: { readonly state: string };
  readonly target: string;
  readonly calls_started: string | number;
  readonly calls_succeeded: string | number;
  readonly calls_failed: string | number;
}
interface Ref {
  readonly name: string;
}
interface Answer {
  readonly channel: {
    readonly ref: { channel_id: string };
    readonly data: Counted;
    readonly subchannel_ref: (Ref & { subchannel_id: string })[];
  };
  readonly subchannel: { readonly data: Counted; readonly socket_ref: (Ref & { socket_id: string })[] };
  readonly socket: { readonly data: { readonly streams_started: string | number }; readonly remote: object };
}
type Ask = (call: object, done: (error: unknown, answer: never) => void) => void;

/** What any client of the service `grpc.channelz.v1` gets. */
function ask<Name extends keyof Answer>(method: string, name: Name, request: object): Promise<Answer[Name]> {
  const handlers = getChannelzHandlers() as never as Record<string, Ask>;
  return new Promise((resolve, reject) => {
    handlers[method]?.({ request }, (error, answer: Answer) => (error ? reject(error) : resolve(answer[name])));
  });
}

/** All channels that do not belong to another, by target. */
async function channels(target: string): Promise<Answer['channel'][]> {
  const all = (await ask('GetTopChannels', 'channel', { start_channel_id: '0', max_results: '1000' })) as never;
  return (all as Answer['channel'][]).filter(({ data }) => data.target.endsWith(target));
}

const pods = new Pods();
const open: { close(): void }[] = [];
afterEach(() => {
  for (const client of open.splice(0)) client.close();
});
afterAll(() => pods.stop());

it('channelz shows a channel with its pods, and counts calls at the pods they went to', async () => {
  await pods.start(3);
  const resolver = new FakeResolver();
  resolver.update(...pods.endpoints);
  const { client, balancer } = ordersClient({ resolver, picker: roundRobin() });
  open.push(client);
  await connected(balancer, 3);
  for (let call = 0; call < 9; call++) await say(client);
  await pods.all[0]?.set({ fail: status.NOT_FOUND });
  for (let call = 0; call < 3; call++) await say(client).catch(() => {});
  await pods.all[0]?.set({ fail: undefined });
  const [channel] = await channels('orders.shop:50051');
  expect(Number(channel?.data.calls_started)).toBe(12);
  expect(Number(channel?.data.calls_succeeded)).toBe(11);
  expect(Number(channel?.data.calls_failed)).toBe(1);
  expect(channel?.data.state.state).toBe('READY');
  const subchannels = async () => {
    const [now] = await channels('orders.shop:50051');
    return Promise.all(
      (now?.subchannel_ref ?? []).map(({ subchannel_id }) => ask('GetSubchannel', 'subchannel', { subchannel_id })),
    );
  };
  const three = await subchannels();
  expect(three.map(({ data }) => [data.state.state, Number(data.calls_started)])).toEqual([
    ['READY', 4],
    ['READY', 4],
    ['READY', 4],
  ]);
  expect(three.map(({ data }) => data.target).sort()).toEqual(
    pods.endpoints.map(({ address, port }) => `${address}:${port}`).sort(),
  );
  for (const { socket_ref } of three) {
    expect(socket_ref.length).toBe(1);
    const socket = await ask('GetSocket', 'socket', { socket_id: socket_ref[0]?.socket_id });
    expect(Number(socket.data.streams_started)).toBe(4);
  }
  // A pod is replaced: nothing of the old one stays listed.
  resolver.update(...pods.endpoints.slice(1));
  pods.all[0]?.kill();
  await until('the pod that left is gone', async () => (await subchannels()).length === 2);
  const [fresh] = await pods.start(1);
  resolver.update(...pods.endpoints.slice(1));
  await until('the new one is there', async () => (await subchannels()).length === 3);
  expect((await subchannels()).map(({ data }) => data.target)).toContain(`127.0.0.1:${fresh?.port}`);
  client.close();
  expect(await channels('orders.shop:50051')).toEqual([]);
});
