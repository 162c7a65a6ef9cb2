import { once } from 'node:events';
import { type AddressInfo, connect as netConnect } from 'node:net';
import { createServer } from 'node:tls';
import { type AmqpConnectionManager, connect as connectManager } from 'amqp-connection-manager';
import { type ChannelModel, type ConfirmChannel, connect } from 'amqplib';
import { type Resolver, staticEndpoints } from 'evenkeel';
import { type Brokers, type BrokersOptions, type ConnectionLeaving, createBrokers } from 'evenkeel/amqp';
import { FakeResolver } from 'evenkeel/testing';
import { Connection } from 'rabbitmq-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { noRabbitmq, type RabbitWorld, startBrokers, titled } from '../../support/databases/rabbitmq.js';
import { calledAfterEach } from '../../support/opened.js';
import { HangingEndpoint, refusingEndpoint } from '../../support/pods/hanging-endpoint.js';
import { hasIpv6, Ipv6Door, needsIpv6 } from '../../support/pods/ipv6.js';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';

let world: RabbitWorld;
beforeAll(async () => {
  if (!noRabbitmq) world = await startBrokers(3);
}, 240_000);
afterAll(() => world?.close());

const open = calledAfterEach();

/** The brokers behind a Service; `leave(i)` takes one out of it. */
function service(options: BrokersOptions = {}, endpoints: readonly object[] = world.endpoints) {
  const resolver = new FakeResolver();
  const brokers = createBrokers('amqp://rabbit.shop:5672', { resolver, leaveSpreadMs: 200, ...options });
  open.push(() => brokers.close({ signal: AbortSignal.abort() }));
  resolver.update(...(endpoints as typeof world.endpoints));
  const leave = (index: number): void => resolver.update(...world.endpoints.filter((_, other) => other !== index));
  return { brokers, resolver, leave };
}

const counts = (brokers: Brokers): number[] =>
  brokers.balancer
    .snapshot()
    .endpoints.filter(({ state }) => state === 'ready')
    .map(({ inFlight }) => inFlight);
const total = (all: readonly number[]): number => all.reduce((sum, count) => sum + count, 0);

/** Managers that are connected. */
async function managersOf(brokers: Brokers, count: number): Promise<AmqpConnectionManager[]> {
  const managers = Array.from({ length: count }, () => brokers.connectManager(connectManager));
  for (const manager of managers) open.push(() => manager.close().catch(() => {}));
  await until('all are connected', () => managers.every((manager) => manager.isConnected()));
  return managers;
}

async function clientsOf(brokers: Brokers, count: number): Promise<Connection[]> {
  // The ports here are not that of the Service.
  await brokers.balancer.ready();
  const clients = Array.from({ length: count }, () => brokers.createConnection(Connection, { retryLow: 50 }));
  for (const client of clients) {
    client.on('error', () => {});
    open.push(() => client.close());
  }
  await Promise.all(clients.map((client) => client.onConnect(0)));
  return clients;
}

async function modelsOf(brokers: Brokers, count: number): Promise<ChannelModel[]> {
  const models = await Promise.all(Array.from({ length: count }, () => brokers.connect(connect)));
  for (const model of models) {
    model.on('error', () => {});
    open.push(() => model.close().catch(() => {}));
  }
  return models;
}

/** A durable quorum queue of its own. */
async function queue(name: string): Promise<ConfirmChannel> {
  const { address, port } = world.at(1).endpoint;
  const model = await connect(`amqp://${address}:${port}`);
  model.on('error', () => {});
  open.push(() => model.close().catch(() => {}));
  const channel = await model.createConfirmChannel();
  await channel.assertQueue(name, { durable: true, arguments: { 'x-queue-type': 'quorum' } });
  return channel;
}

/** How many a queue holds. */
async function drain(channel: ConfirmChannel, name: string): Promise<string[]> {
  const found: string[] = [];
  for (;;) {
    const message = await channel.get(name, { noAck: true });
    if (message === false) return found;
    found.push(String(message.content));
  }
}

it('a manager that is waiting for a broker closes at once', async () => {
  // Knows nothing, for ever.
  const resolver: Resolver = { name: 'silent', watch: () => ({ refresh() {}, close() {} }) };
  const brokers = createBrokers('amqp://rabbit.shop:5672', { resolver, waitTimeoutMs: 60_000 });
  open.push(() => brokers.close({ signal: AbortSignal.abort() }));
  const manager = brokers.connectManager(connectManager);
  await until('it waits', () => brokers.balancer.snapshot().waiting === 1);
  await manager.close();
  expect(brokers.balancer.snapshot().waiting).toBe(0);
});

describe.skipIf(noRabbitmq)(titled('AMQP'), () => {
  describe('placement', () => {
    it('amqplib: each connection goes to the broker with the fewest', async () => {
      const { brokers } = service();
      const models = await modelsOf(brokers, 6);
      expect(counts(brokers)).toEqual([2, 2, 2]);
      expect(await Promise.all(world.all.map((broker) => broker.connections()))).toEqual([2, 2, 2]);
      await models[0]?.close();
      expect(total(counts(brokers))).toBe(5);
      await modelsOf(brokers, 1);
      expect(counts(brokers)).toEqual([2, 2, 2]);
    });

    it('amqp-connection-manager: each manager goes to the broker with the fewest, and a closed one does not count', async () => {
      const { brokers } = service();
      const managers = await managersOf(brokers, 6);
      expect(counts(brokers)).toEqual([2, 2, 2]);
      await managers[0]?.close();
      expect(total(counts(brokers))).toBe(5);
    });

    it('rabbitmq-client: each connection goes to the broker with the fewest, and a closed one does not count', async () => {
      const { brokers } = service();
      const clients = await clientsOf(brokers, 6);
      expect(counts(brokers)).toEqual([2, 2, 2]);
      await clients[0]?.close();
      await until('it is given back', () => total(counts(brokers)) === 5);
    });

    it.runIf(hasIpv6)(titleOf('all three connect to an IPv6 address', hasIpv6, needsIpv6), async () => {
      const { port } = world.endpoints[0] as { port: number };
      await using door = await Ipv6Door.open(port);
      const brokers = createBrokers(`amqp://[::1]:${port}`);
      open.push(() => brokers.close({ signal: AbortSignal.abort() }));
      await modelsOf(brokers, 1);
      await managersOf(brokers, 1);
      await clientsOf(brokers, 1);
      expect(counts(brokers)).toEqual([3]);
      expect(door.accepted).toBe(3);
    });

    it('all three connect to the second address of a broker whose first refuses, and the broker does not count as failed', async () => {
      const states: string[] = [];
      const observer = { subchannelChanged: ({ to }: { to: string }): void => void states.push(to) };
      const [{ address, port }] = world.endpoints as unknown as [{ address: string; port: number }];
      const broker = [{ address: '127.0.0.99', otherAddress: address, port, uid: 'rabbit' }];
      for (const begin of [modelsOf, managersOf, clientsOf]) {
        const { brokers } = service({ observer }, broker);
        await begin(brokers, 1);
        expect(counts(brokers)).toEqual([1]);
        expect(brokers.balancer.snapshot().endpoints[0]?.address).toBe(`${address}:${port}`);
      }
      expect(states).toEqual(['connecting', 'ready', 'connecting', 'ready', 'connecting', 'ready']);
    });

    it('all three go on to another broker when one refuses or hangs', async () => {
      const hanging = await HangingEndpoint.start();
      open.push(() => hanging[Symbol.asyncDispose]());
      const { port } = world.at(0).endpoint;
      const { brokers } = service({ pool: { connectTimeoutMs: 300 }, waitTimeoutMs: 30_000 }, [
        await refusingEndpoint(),
        hanging.endpoint,
        ...world.endpoints,
      ]);
      await brokers.balancer.ready();
      await Promise.all([modelsOf(brokers, 3), managersOf(brokers, 3), clientsOf(brokers, 3)]);
      const used = brokers.balancer.snapshot().endpoints.filter(({ inFlight }) => inFlight > 0);
      expect(used.every(({ address }) => address.endsWith(`:${port}`))).toBe(true);
      expect(total(used.map(({ inFlight }) => inFlight))).toBe(9);
    });
  });

  it('TLS: the certificate is checked for the name of the Service, whichever broker it is', async () => {
    const { cert, key } = createCertificate({ hosts: ['rabbit.shop'] });
    const names: unknown[] = [];
    const terminators = await Promise.all(
      world.endpoints.map(async ({ address, port }) => {
        const server = createServer({ cert, key }, (socket) => {
          names.push(socket.servername);
          const broker = netConnect(port, address);
          socket.on('error', () => broker.destroy()).pipe(broker);
          broker.on('error', () => socket.destroy()).pipe(socket);
        });
        server.listen(0, '127.0.0.1');
        await once(server, 'listening');
        open.push(() => server.close());
        return { address: '127.0.0.1', port: (server.address() as AddressInfo).port };
      }),
    );
    const resolver = new FakeResolver();
    const brokers = createBrokers('amqps://rabbit.shop', { resolver });
    open.push(() => brokers.close({ signal: AbortSignal.abort() }));
    resolver.update(...terminators);
    await brokers.balancer.ready();
    const model = await brokers.connect(connect, { socketOptions: { ca: cert } });
    model.on('error', () => {});
    const manager = brokers.connectManager(connectManager, { connectionOptions: { ca: cert } });
    open.push(() => manager.close().catch(() => {}));
    const client = brokers.createConnection(Connection, { tls: { ca: cert } });
    client.on('error', () => {});
    await until('all are connected', () => manager.isConnected() && client.ready);
    expect(counts(brokers)).toEqual([1, 1, 1]);
    expect(names).toEqual(['rabbit.shop', 'rabbit.shop', 'rabbit.shop']);
    await client.close();
    const other = createBrokers('amqps://mail.shop', { resolver: staticEndpoints(terminators), waitTimeoutMs: 300 });
    open.push(() => other.close());
    await expect(other.connect(connect, { socketOptions: { ca: cert } })).rejects.toThrow('mail.shop');
  });

  it("refuses a function that is not the library's, and options that evenkeel sets itself", async () => {
    const { brokers } = service();
    await expect(brokers.connect(connectManager as never)).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
    await expect(brokers.connect(connect, { socketOptions: { recovery: true } })).rejects.toThrow('recovery');
    expect(() => brokers.connectManager(connectManager, { findServers: () => [] } as never)).toThrow('findServers');
    expect(() => brokers.createConnection(Connection, { url: 'amqp://localhost' } as never)).toThrow('url');
    expect(() => createBrokers('amqp://guest:hush@')).toThrow(/^(?!.*hush).*amqp:\/\/rabbit\.shop/);
    expect(total(counts(brokers))).toBe(0);
  });

  describe('a broker that leaves', () => {
    it('managers move one by one; each message they publish is confirmed once, and none is missing', async () => {
      const channel = await queue('moved');
      const { brokers, leave } = service();
      const managers = await managersOf(brokers, 6);
      const confirmed: string[] = [];
      const publishing = managers.map(async (manager, client) => {
        const wrapper = manager.createChannel();
        wrapper.on('error', () => {});
        for (let sent = 0; sent < 50; sent++) {
          const id = `${client}.${sent}`;
          await wrapper.sendToQueue('moved', id, { persistent: true });
          confirmed.push(id);
          if (sent === 20 && client === 0) leave(0);
        }
      });
      await Promise.all(publishing);
      await until('all have moved', () => counts(brokers).toString() === '3,3');
      await until('the broker has noticed', async () => (await world.at(0).connections()) === 0);
      const found = await drain(channel, 'moved');
      expect(confirmed.filter((id) => !found.includes(id))).toEqual([]);
      expect(new Set(confirmed).size).toBe(300);
    });

    it('a Service without brokers for a while: no old broker is dialed, and the counts are right afterwards', async () => {
      const { brokers, resolver } = service();
      const [managers, clients] = await Promise.all([managersOf(brokers, 3), clientsOf(brokers, 3)]);
      const failures: unknown[] = [];
      for (const manager of managers) manager.on('connectFailed', ({ err }) => void failures.push(err));
      resolver.update();
      await until('all have tried several times', () => failures.length >= 9);
      for (const failure of failures) expect(failure).toMatchObject({ code: 'EVENKEEL_NO_ENDPOINTS' });
      expect(managers.some((manager) => manager.isConnected())).toBe(false);
      resolver.update(...world.endpoints);
      const areBack = () => managers.every((one) => one.isConnected()) && clients.every((one) => one.ready);
      await until('all are back', areBack);
      expect(counts(brokers)).toEqual([2, 2, 2]);
    });

    it('managers with a listener are notified, and move when it suits them', async () => {
      const heard: [ConnectionLeaving, object][] = [];
      const { brokers, leave } = service({ onLeaving: (leaving, client) => void heard.push([leaving, client]) });
      const managers = await managersOf(brokers, 3);
      const events: ConnectionLeaving[] = [];
      for (const manager of managers) manager.on('leaving', (leaving: ConnectionLeaving) => void events.push(leaving));
      leave(0);
      await until('one is told', () => heard.length === 1);
      const [leaving, manager] = heard[0] as [ConnectionLeaving, AmqpConnectionManager];
      expect(leaving).toMatchObject({ reason: 'endpoint', endpoint: { name: 'rabbit-0' } });
      expect(events).toEqual([leaving]);
      expect(managers).toContain(manager);
      expect(await world.at(0).connections()).toBe(1);
      manager.reconnect();
      await until('it has moved', async () => (await world.at(0).connections()) === 0 && manager.isConnected());
      expect(total(counts(brokers))).toBe(3);
    });

    it('amqplib: a connection is notified, waits for its confirms and is replaced; no message is lost or sent twice', async () => {
      const channel = await queue('replaced');
      const { brokers, leave } = service({ pool: { drainTimeoutMs: 20_000 } });
      let current: ConfirmChannel;
      let isMoving: Promise<void> | undefined;
      const begin = async (): Promise<void> => {
        const model = await brokers.connect(connect);
        model.on('error', () => {});
        current = await model.createConfirmChannel();
        model.once('leaving', () => {
          const old = current;
          isMoving = begin().then(async () => {
            await old.waitForConfirms();
            await model.close();
          });
        });
        open.push(() => model.close().catch(() => {}));
      };
      await begin();
      const at = brokers.balancer.snapshot().endpoints.findIndex(({ inFlight }) => inFlight === 1);
      let confirmed = 0;
      for (let sent = 0; sent < 200; sent++) {
        if (sent === 100) {
          leave(at);
          await until('it is told', () => isMoving !== undefined);
        }
        current!.sendToQueue('replaced', Buffer.from(String(sent)), { persistent: true }, (error) => {
          if (!error) confirmed++;
        });
      }
      await isMoving;
      await until('all are confirmed', () => confirmed === 200);
      expect(await world.at(at).connections()).toBe(at === 1 ? 1 : 0);
      const found = await drain(channel, 'replaced');
      expect(found.map(Number).sort((a, b) => a - b)).toEqual(Array.from({ length: 200 }, (_, sent) => sent));
    });

    it('amqplib: a connection without a listener is closed when its time is over', async () => {
      const { brokers, leave } = service({ pool: { drainTimeoutMs: 1_000 } });
      const models = await modelsOf(brokers, 3);
      const closed: (Error | undefined)[] = [];
      for (const model of models) model.on('close', (error) => void closed.push(error));
      leave(0);
      await until('one is closed', () => closed.length === 1);
      expect(closed).toEqual([undefined]);
      expect(counts(brokers)).toEqual([1, 1]);
    });

    it('rabbitmq-client: connections move; no message they publish with confirms is missing', async () => {
      const channel = await queue('moved-too');
      const { brokers, leave } = service();
      const clients = await clientsOf(brokers, 6);
      const confirmed: string[] = [];
      const publishing = clients.map(async (client, index) => {
        const publisher = client.createPublisher({ confirm: true, maxAttempts: 10 });
        for (let sent = 0; sent < 50; sent++) {
          const id = `${index}.${sent}`;
          await publisher.send({ routingKey: 'moved-too', durable: true }, id);
          confirmed.push(id);
          if (sent === 20 && index === 0) leave(0);
        }
        await publisher.close();
      });
      await Promise.all(publishing);
      await until('all have moved', () => counts(brokers).toString() === '3,3');
      await until('the broker has noticed', async () => (await world.at(0).connections()) === 0);
      const found = await drain(channel, 'moved-too');
      expect(confirmed.filter((id) => !found.includes(id))).toEqual([]);
    });

    it('messages that a consumer has not acknowledged are delivered again, all others once', async () => {
      const channel = await queue('consumed');
      const { brokers, leave } = service();
      const [manager] = (await managersOf(brokers, 1)) as [AmqpConnectionManager];
      const at = brokers.balancer.snapshot().endpoints.findIndex(({ inFlight }) => inFlight === 1);
      const first = new Map<string, number>();
      const again: string[] = [];
      let isHolding = true;
      const wrapper = manager.createChannel({ confirm: false });
      wrapper.on('error', () => {});
      await wrapper.consume(
        'consumed',
        (message) => {
          const id = String(message.content);
          if (message.fields.redelivered) again.push(id);
          first.set(id, (first.get(id) ?? 0) + 1);
          if (!isHolding || Number(id) < 5) wrapper.ack(message);
        },
        { prefetch: 10 },
      );
      for (let sent = 0; sent < 40; sent++)
        channel.sendToQueue('consumed', Buffer.from(String(sent)), { persistent: true });
      await channel.waitForConfirms();
      // Five are acknowledged, ten are held.
      await until('it holds what it may', () => first.size === 15);
      isHolding = false;
      leave(at);
      await until('all have come', () => first.size === 40);
      expect(again.map(Number).sort((a, b) => a - b)).toEqual([5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
      expect([...first].filter(([id, times]) => times !== (again.includes(id) ? 2 : 1))).toEqual([]);
    });

    it('a manager whose broker does not answer the close is cut, and connects to another broker', async () => {
      const { brokers, leave } = service();
      const managers = await managersOf(brokers, 3);
      world.at(0).freeze();
      try {
        leave(0);
        await until(
          'all are elsewhere',
          () => counts(brokers).toString() === '1,2' || counts(brokers).toString() === '2,1',
        );
        await until('and connected', () => managers.every((manager) => manager.isConnected()));
      } finally {
        world.at(0).thaw();
      }
      await until('the old one is gone there', async () => (await world.at(0).connections()) === 0);
    });
  });

  describe('errors', () => {
    it('a wrong password fails at once with the error of the library, and is not held against the brokers', async () => {
      const resolver = new FakeResolver();
      const brokers = createBrokers('amqp://guest:wrong@rabbit.shop:5672', { resolver });
      open.push(() => brokers.close());
      resolver.update(...world.endpoints);
      await brokers.balancer.ready();
      await expect(brokers.connect(connect)).rejects.toThrow('ACCESS-REFUSED');
      const manager = brokers.connectManager(connectManager);
      open.push(() => manager.close());
      const [{ err }] = await once(manager, 'connectFailed');
      expect(String(err)).toContain('ACCESS-REFUSED');
      const client = brokers.createConnection(Connection);
      const [error] = await once(client, 'error');
      expect(String(error)).toContain('ACCESS_REFUSED');
      await manager.close();
      await client.close();
      await until('nothing is held', () => total(counts(brokers)) === 0);
      expect(counts(brokers)).toHaveLength(3);
    });

    it('no broker in time fails with EVENKEEL_NOT_READY, an aborted wait with the reason of its signal', async () => {
      const { brokers } = service({ waitTimeoutMs: 300 }, [await refusingEndpoint()]);
      await expect(brokers.connect(connect)).rejects.toMatchObject({
        code: 'EVENKEEL_NOT_READY',
        message: expect.stringContaining('ECONNREFUSED'),
      });
      const reason = new Error('changed my mind');
      await expect(brokers.connect(connect, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    });

    it('a channel error leaves the connection where it is', async () => {
      const { brokers } = service();
      const [model] = (await modelsOf(brokers, 3)) as [ChannelModel];
      const channel = await model.createChannel();
      channel.on('error', () => {});
      await expect(channel.checkQueue('nobody-made-this')).rejects.toThrow('404');
      expect(counts(brokers)).toEqual([1, 1, 1]);
      await (await model.createChannel()).close();
    });

    it('connections that a broker closes are opened again, by the managers and by rabbitmq-client', async () => {
      const { brokers } = service();
      const managers = await managersOf(brokers, 3);
      const clients = await clientsOf(brokers, 3);
      let lost = 0;
      for (const manager of managers) manager.on('disconnect', () => void lost++);
      for (const client of clients) client.on('error', () => void lost++);
      await world.at(0).control('close_all_connections', '--vhost', '/', 'maintenance');
      await until('those of all brokers are closed', () => lost === 6);
      await until(
        'all are back',
        () => managers.every((one) => one.isConnected()) && clients.every((one) => one.ready),
      );
      await until('and counted', () => total(counts(brokers)) === 6);
      expect(counts(brokers)).toHaveLength(3);
    });
  });

  it('rebalance: a broker that joins gets its share, by one move at a time', async () => {
    const { brokers, resolver } = service({ rebalance: { ratioPerMinute: 20 } }, world.endpoints.slice(0, 2));
    await managersOf(brokers, 8);
    expect(counts(brokers)).toEqual([4, 4]);
    resolver.update(...world.endpoints);
    await until('all are even', () => {
      const now = counts(brokers);
      return now.length === 3 && total(now) === 8 && Math.max(...now) <= 3;
    });
    expect(await world.at(2).connections()).toBeGreaterThanOrEqual(2);
  });

  it('a broker that blocks a connection gets no other until it unblocks it', async () => {
    const { brokers } = service();
    const [model] = (await modelsOf(brokers, 1)) as [ChannelModel];
    const at = brokers.balancer.snapshot().endpoints.findIndex(({ inFlight }) => inFlight === 1);
    const blocked = once(model, 'blocked');
    await world.at(at).control('set_vm_memory_high_watermark', 'absolute', '1');
    try {
      const channel = await model.createChannel();
      channel.publish('', 'nowhere', Buffer.from('hello'));
      await blocked;
      await modelsOf(brokers, 6);
      const now = brokers.balancer.snapshot().endpoints.map(({ inFlight }) => inFlight);
      expect(now[at]).toBe(1);
      expect(now.filter((_, index) => index !== at)).toEqual([3, 3]);
    } finally {
      const unblocked = once(model, 'unblocked');
      await world.at(at).control('set_vm_memory_high_watermark', '0.8');
      await unblocked;
    }
    await modelsOf(brokers, 2);
    expect(counts(brokers)).toEqual([3, 3, 3]);
  });

  it('close: managers and connections are closed, and do not come back', async () => {
    const { brokers } = service({ pool: { drainTimeoutMs: 1_000 } });
    const [manager] = (await managersOf(brokers, 1)) as [AmqpConnectionManager];
    const [client] = (await clientsOf(brokers, 1)) as [Connection];
    const [model] = (await modelsOf(brokers, 1)) as [ChannelModel];
    const closed = once(model, 'close');
    await brokers.close();
    await closed;
    expect([manager.isConnected(), client.ready]).toEqual([false, false]);
    await expect(brokers.connect(connect)).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
    for (const broker of world.all) expect(await broker.connections()).toBe(0);
  });

  describe('a broker that vanishes without closing its connections', () => {
    it.each([
      [
        'rabbitmqctl stop_app',
        async () => void (await world.at(0).control('stop_app')),
        () => world.at(0).control('start_app'),
      ],
      // The last test: it is not brought back.
      ['kill -9', () => world.at(0).kill(), undefined],
    ])('%s: no confirmed message is lost', async (_how, end, bringBack) => {
      const name = 'survives';
      const channel = await queue(name);
      const { brokers } = service();
      const managers = await managersOf(brokers, 3);
      const clients = await clientsOf(brokers, 3);
      const confirmed: string[] = [];
      let isOver = false;
      const publishing = [
        ...managers.map(async (manager, index) => {
          const wrapper = manager.createChannel();
          wrapper.on('error', () => {});
          for (let sent = 0; !isOver; sent++) {
            // A manager rejects what was not confirmed when its connection broke.
            await wrapper.sendToQueue(name, `m${index}.${sent}`, { persistent: true }).then(
              () => confirmed.push(`m${index}.${sent}`),
              () => {},
            );
          }
        }),
        ...clients.map(async (client, index) => {
          const publisher = client.createPublisher({ confirm: true, maxAttempts: 100 });
          for (let sent = 0; !isOver; sent++) {
            await publisher.send({ routingKey: name, durable: true }, `c${index}.${sent}`);
            confirmed.push(`c${index}.${sent}`);
          }
          await publisher.close();
        }),
      ];
      await until('they publish', () => confirmed.length > 60);
      await end();
      await until('all are connected to the others', () => {
        const now = counts(brokers);
        return now.length === 2 && total(now) === 6 && Math.max(...now) === 3;
      });
      const before = confirmed.length;
      await until('they publish again', () => confirmed.length > before + 60);
      isOver = true;
      await Promise.all(publishing);
      const found = new Set(await drain(channel, name));
      expect(confirmed.filter((id) => !found.has(id))).toEqual([]);
      if (bringBack === undefined) return;
      await bringBack();
      await until('it is used again', () => counts(brokers).length === 3);
    });
  });
});
