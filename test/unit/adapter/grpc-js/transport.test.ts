import { connectivityState } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { resolveGrpcOptions } from '../../../../src/adapter/grpc-js/options.js';
import type { PodConnection } from '../../../../src/adapter/grpc-js/pod-connection.js';
import { GrpcTransport } from '../../../../src/adapter/grpc-js/transport.js';
import { createEndpoint, type EndpointInit } from '../../../../src/endpoint/endpoint.js';
import type { Connection } from '../../../../src/pool/transport.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';
import { transportContract } from '../../../contract/transport.js';
import { FakeHelper, type FakeSubchannel } from '../../../support/fixtures/fake-subchannel.js';
import { toldCapacity } from '../../../support/pods/told-capacity.js';

const endpoint = (init: Partial<EndpointInit> = {}) => createEndpoint({ address: '10.0.0.1', port: 80, ...init });
const never = new AbortController().signal;

transportContract<PodConnection>({
  name: 'grpc-js',
  open: () => {
    const fake = new FakeHelper();
    fake.behaviour.set('10.0.0.2:80', 'refuse').set('10.0.0.3:80', 'hang');
    const transport = new GrpcTransport(fake.helper, {}, resolveGrpcOptions());
    const running = new Set<() => void>();
    return {
      transport,
      endpoint: endpoint(),
      refusing: endpoint({ address: '10.0.0.2' }),
      hanging: endpoint({ address: '10.0.0.3' }),
      open: () => fake.held().length,
      end: () => {
        for (const subchannel of fake.held()) subchannel.become(connectivityState.IDLE);
        for (const cut of running) cut();
      },
      call: async (pod) => {
        const connection = pod.next();
        if (connection === undefined) throw new Error('no connection');
        pod.callStarted(connection);
        let settle: (how: 'finished' | 'cut') => void = () => {};
        const ended = new Promise<'finished' | 'cut'>((resolve) => {
          settle = resolve;
        });
        const endWith = (how: 'finished' | 'cut') => (): void => {
          if (!running.delete(cut)) return;
          pod.callEnded(connection);
          settle(how);
        };
        const cut = endWith('cut');
        running.add(cut);
        return { ended, finish: endWith('finished') };
      },
      close: () => transport.release(),
    };
  },
  // A lost connection leaves first; it is closed by whoever holds it.
  outlivesCleanEnd: true,
  callsOutliveCut: true,
});

function world(options: Parameters<typeof resolveGrpcOptions>[0] = {}) {
  const fake = new FakeHelper();
  const clock = new FakeClock();
  const transport = new GrpcTransport(
    fake.helper,
    { 'grpc.keepalive_time_ms': 10_000 },
    resolveGrpcOptions({ clock, ...options }),
  );
  const connect = async (init: Partial<EndpointInit> = {}): Promise<PodConnection> =>
    (await transport.connect(endpoint(init), never)).handle;
  return { fake, clock, transport, connect };
}

const turn = () => new Promise(setImmediate);

async function hasLeft(connection: Connection<unknown>): Promise<boolean> {
  return Promise.race([connection.leaving?.then(() => true), turn().then(() => false)]) as Promise<boolean>;
}

describe('the connections of a channel', () => {
  it('U7: have the pod uid and a number among their arguments, with the channel options', async () => {
    const { fake, connect } = world();
    await connect();
    await connect();
    await connect({ uid: 'a' });
    await connect({ uid: 'b' });
    expect(fake.subchannels.map(({ args }) => args)).toEqual([
      { 'grpc.keepalive_time_ms': 10_000, 'evenkeel.connection': 0 },
      { 'grpc.keepalive_time_ms': 10_000, 'evenkeel.connection': 1 },
      { 'grpc.keepalive_time_ms': 10_000, 'evenkeel.connection': 0, 'evenkeel.uid': 'a' },
      { 'grpc.keepalive_time_ms': 10_000, 'evenkeel.connection': 0, 'evenkeel.uid': 'b' },
    ]);
    expect(fake.listed.length).toBe(4);
  });

  it('take the lowest free number again', async () => {
    const { fake, connect } = world();
    const first = await connect();
    const second = await connect();
    await first.close();
    await connect();
    await second.close();
    expect(fake.subchannels.length).toBe(2);
    expect(fake.held().length).toBe(1);
  });

  it('use a subchannel that is connected already as it is', async () => {
    const { fake, connect } = world();
    await (await connect()).close();
    await connect();
    expect(fake.subchannels.map(({ dials }) => dials)).toEqual([1]);
  });

  it('do not wait for the backoff of grpc-js: the pool decides when to try again', async () => {
    const { fake, connect } = world();
    fake.behaviour.set('10.0.0.1:80', 'refuse');
    await expect(connect()).rejects.toMatchObject({
      code: 'EVENKEEL_CONNECT',
      message: expect.stringContaining('ECONNREFUSED'),
    });
    expect(fake.held()).toEqual([]);
    fake.behaviour.set('10.0.0.1:80', 'accept');
    await connect();
    expect(fake.subchannels.map(({ dials, backoffResets }) => [dials, backoffResets])).toEqual([[2, 1]]);
  });

  it('try again when the backoff of a shared subchannel ends earlier', async () => {
    const { fake, connect } = world();
    fake.behaviour.set('10.0.0.1:80', 'refuse');
    await expect(connect()).rejects.toThrow();
    fake.behaviour.set('10.0.0.1:80', 'accept');
    const connecting = connect();
    // Between our asking it to forget its backoff and its doing so.
    queueMicrotask(() => fake.subchannels[0]?.become(connectivityState.IDLE));
    await connecting;
  });

  it('leave an aborted dial alone: the next attempt is a new one', async () => {
    const { fake, transport, connect } = world();
    fake.behaviour.set('10.0.0.1:80', 'hang');
    const limit = new AbortController();
    const connecting = transport.connect(endpoint(), limit.signal);
    await turn();
    limit.abort();
    await expect(connecting).rejects.toThrow();
    fake.behaviour.set('10.0.0.1:80', 'accept');
    await connect();
    expect(fake.subchannels.map(({ dials }) => dials)).toEqual([1, 1]);
    // When the old dial ends, its number is free again and nobody listens to it any more.
    fake.subchannels[0]?.become(connectivityState.IDLE);
    expect(fake.subchannels[0]?.listeners).toBe(0);
    await connect();
    expect(fake.subchannels.length).toBe(2);
  });

  it('leave nothing behind when they are closed', async () => {
    const { fake, connect, clock } = world({ connections: 2 });
    for (let pod = 0; pod < 500; pod++) {
      const connection = await connect({ uid: `pod-${pod % 50}` });
      if (pod % 3 === 0) for (const subchannel of fake.held()) subchannel.become(connectivityState.IDLE);
      await connection.close();
    }
    await turn();
    // 50 pods with two numbers each: every number was free again when it was needed.
    expect(fake.subchannels.length).toBe(100);
    expect(fake.subchannels.map(({ listeners }) => listeners).filter((count) => count > 0)).toEqual([]);
    expect([fake.held().length, fake.listed.length, clock.timers]).toEqual([0, 0, 0]);
  });

  it('are all released at once when the channel stops, and no new one is made', async () => {
    const { fake, transport, connect } = world({ connections: 2 });
    await connect();
    fake.behaviour.set('10.0.0.9:80', 'hang');
    const connecting = connect({ address: '10.0.0.9' });
    connecting.catch(() => {});
    await turn();
    transport.release();
    expect(fake.held()).toEqual([]);
    expect(fake.listed).toEqual([]);
    await expect(connecting).rejects.toThrow('idle or closed');
    await expect(connect()).rejects.toThrow('idle or closed');
  });

  it('fail while the server allows no streams, on which a call would wait until its deadline', async () => {
    const { fake, connect } = world();
    await (await connect()).close();
    const [
      {
        transport: { session },
      },
    ] = fake.subchannels as [FakeSubchannel];
    session.remoteSettings.maxConcurrentStreams = 0;
    await expect(connect()).rejects.toMatchObject({
      code: 'EVENKEEL_CONNECT',
      message: '10.0.0.1:80 allows no HTTP/2 streams at present',
    });
    expect(fake.held()).toEqual([]);
    session.remoteSettings.maxConcurrentStreams = 7;
    expect((await connect()).capacity).toBe(7);
  });
});

describe('several connections to a pod', () => {
  it('are opened after the first, and calls go to the one with the fewest', async () => {
    const { fake, connect } = world({ connections: 3, maxConcurrentStreams: 10 });
    const pod = await connect();
    const told = toldCapacity(pod);
    expect([pod.capacity, fake.held().length]).toEqual([10, 3]);
    await turn();
    await turn();
    expect([pod.capacity, told]).toEqual([30, [20, 30]]);
    const chosen = Array.from({ length: 7 }, () => {
      const connection = pod.next();
      if (connection !== undefined) pod.callStarted(connection);
      return connection;
    });
    expect([...new Set(chosen)].map((connection) => connection?.streams).sort()).toEqual([2, 2, 3]);
  });

  it('lose one without leaving; it is opened again after a growing pause', async () => {
    const { fake, clock, connect } = world({ connections: 2, maxConcurrentStreams: 10 });
    const pod = await connect();
    await turn();
    await turn();
    const told = toldCapacity(pod);
    fake.behaviour.set('10.0.0.1:80', 'refuse');
    fake.subchannels[1]?.become(connectivityState.IDLE);
    expect([pod.capacity, told]).toEqual([10, [10]]);
    expect(await hasLeft(pod)).toBe(false);
    const pauses: number[] = [];
    for (let attempt = 0; attempt < 3; attempt++) {
      pauses.push(clock.nextInMs as number);
      clock.advance(clock.nextInMs as number);
      await turn();
      await turn();
    }
    expect(pauses.map((pause, index) => Math.round(pause / (1_000 * 1.6 ** index)))).toEqual([1, 1, 1]);
    fake.behaviour.set('10.0.0.1:80', 'accept');
    clock.advance(clock.nextInMs as number);
    await turn();
    await turn();
    expect(pod.capacity).toBe(20);
    expect(clock.timers).toBe(0);
  });

  it('leave when the last is lost', async () => {
    const { fake, connect, clock } = world({ connections: 2 });
    const pod = await connect();
    await turn();
    await turn();
    const told = toldCapacity(pod);
    for (const subchannel of fake.held()) subchannel.become(connectivityState.IDLE);
    expect(await hasLeft(pod)).toBe(true);
    expect([pod.capacity, pod.next(), fake.held().length, clock.timers]).toEqual([0, undefined, 0, 0]);
    expect(told.at(-1)).toBe(0);
  });
});

describe('connections that grow', () => {
  const growing = async (connections: { min?: number; max: number }) => {
    const all = world({ connections, maxConcurrentStreams: 10 });
    const pod = await all.connect();
    await twoTurns();
    const start = (count: number) =>
      Array.from({ length: count }, () => {
        const connection = pod.next();
        if (connection === undefined) throw new Error('no connection');
        pod.callStarted(connection);
        return connection;
      });
    return { ...all, pod, start };
  };
  const twoTurns = async () => {
    await turn();
    await turn();
  };

  it('are opened one by one when all are full, up to the limit', async () => {
    const { fake, pod, start } = await growing({ max: 3 });
    const told = toldCapacity(pod);
    start(9);
    await twoTurns();
    expect([fake.held().length, pod.capacity]).toEqual([1, 10]);
    start(1);
    await twoTurns();
    expect([fake.held().length, pod.capacity]).toEqual([2, 20]);
    start(9);
    await twoTurns();
    expect(pod.capacity).toBe(20);
    start(1);
    await twoTurns();
    start(10);
    await twoTurns();
    expect([fake.held().length, pod.capacity, told]).toEqual([3, 30, [20, 30]]);
  });

  it('get calls only while the first ones are full', async () => {
    const { pod, start } = await growing({ min: 2, max: 4 });
    const first = new Set(start(20));
    expect(first.size).toBe(2);
    await twoTurns();
    const [third] = start(1);
    expect(first.has(third as never)).toBe(false);
    const [some] = first;
    if (some === undefined) throw new Error('no connection');
    pod.callEnded(some);
    expect(start(1)).toEqual([some]);
    expect(start(1)).toEqual([third]);
  });

  it('are closed down to the minimum when they had no call for one whole interval', async () => {
    const { fake, clock, pod, start } = await growing({ max: 3 });
    const running = start(10);
    await twoTurns();
    running.push(...start(10));
    await twoTurns();
    const told = toldCapacity(pod);
    expect(pod.capacity).toBe(30);
    for (const connection of running) pod.callEnded(connection);
    // They were used in this interval, the third was not.
    clock.advance(300_000);
    expect([pod.capacity, told]).toEqual([20, [20]]);
    clock.advance(300_000);
    expect([pod.capacity, told, fake.held().length]).toEqual([10, [20, 10], 1]);
    expect(clock.timers).toBe(0);
    start(10);
    await twoTurns();
    expect(pod.capacity).toBe(20);
    await pod.close(AbortSignal.abort());
    expect([clock.timers, fake.held().length]).toEqual([0, 0]);
  });

  it('stay while a call runs on them, however long', async () => {
    const { clock, pod, start } = await growing({ max: 2 });
    start(10);
    await twoTurns();
    start(1);
    clock.advance(900_000);
    expect(pod.capacity).toBe(20);
  });

  it('that cannot be opened are tried again after a pause, not for each call', async () => {
    const { fake, clock, pod, start } = await growing({ max: 2 });
    fake.behaviour.set('10.0.0.1:80', 'refuse');
    const [connection] = start(10);
    if (connection === undefined) throw new Error('no connection');
    await twoTurns();
    for (let round = 0; round < 5; round++) {
      pod.callEnded(connection);
      start(1);
      await twoTurns();
    }
    expect(fake.subchannels[1]?.dials).toBe(1);
    fake.behaviour.set('10.0.0.1:80', 'accept');
    clock.advance(clock.nextInMs as number);
    await twoTurns();
    expect([pod.capacity, await hasLeft(pod)]).toEqual([20, false]);
  });

  it('are replaced when one is lost only if the others are full', async () => {
    const { fake, clock, pod, start } = await growing({ max: 2 });
    start(10);
    await twoTurns();
    clock.advance(1_000);
    fake.subchannels[1]?.become(connectivityState.IDLE);
    await twoTurns();
    expect([pod.capacity, fake.held().length]).toEqual([20, 2]);
    const [idle] = start(1);
    if (idle === undefined) throw new Error('no connection');
    pod.callEnded(idle);
    pod.callEnded(pod.next() as never);
    clock.advance(1_000);
    fake.held()[1]?.become(connectivityState.IDLE);
    await twoTurns();
    expect([pod.capacity, fake.held().length]).toEqual([10, 1]);
  });
});
