import { EventEmitter } from 'node:events';
import { Connection } from 'rabbitmq-client';
import { afterEach, expect, it } from 'vitest';
import { type Brokers, createBrokers } from '../../../../src/adapter/amqp/index.js';
import { createEndpoint } from '../../../../src/endpoint/endpoint.js';
import { settle } from '../../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../../src/testing/fake-resolver.js';

interface Options {
  readonly findServers?: () => Promise<unknown>;
}

let brokers: Brokers;
afterEach(() => brokers.close({ signal: AbortSignal.abort() }));

async function ready(): Promise<Brokers> {
  const resolver = new FakeResolver();
  brokers = createBrokers('amqp://rabbit.shop:5672', { resolver });
  resolver.update(createEndpoint({ address: '127.0.0.1', port: 5_672 }));
  await brokers.balancer.ready();
  return brokers;
}

const inFlight = (): number | undefined => brokers.balancer.snapshot().endpoints[0]?.inFlight;

it.each([
  ['nothing', undefined],
  ['an object without listeners', {}],
  ['an emitter without a connection', new EventEmitter()],
])('a function that resolves to %s instead of a connection leaves no call behind', async (_what, connection) => {
  await ready();
  for (let call = 0; call < 3; call++) {
    await expect(brokers.connect(async () => connection as object)).rejects.toMatchObject({
      code: 'EVENKEEL_OPTION',
      message: expect.stringContaining('connect must be a function that resolves to a connection of amqplib'),
    });
  }
  expect(inFlight()).toBe(0);
});

it('a manager whose connection cannot be followed leaves no call behind', async () => {
  await ready();
  class Manager extends EventEmitter {
    reconnect(): void {}
    async close(): Promise<void> {}
  }
  const manager = brokers.connectManager((_urls: undefined, { findServers }: Options = {}) => {
    const made = new Manager();
    // As the library does it: what a listener throws counts as a failure to connect.
    void Promise.resolve(findServers?.())
      .then(() => made.emit('connect', { connection: new EventEmitter() }))
      .catch((err) => made.emit('connectFailed', { err }));
    return made;
  });
  await settle();
  expect([manager.listenerCount('connect'), inFlight()]).toEqual([1, 0]);
});

it('what is no manager leaves no call behind', async () => {
  const resolver = new FakeResolver();
  brokers = createBrokers('amqp://rabbit.shop:5672', { resolver });
  let asked: Promise<unknown> | undefined;
  const connect = (_urls: undefined, { findServers }: Options = {}): object => {
    asked = findServers?.();
    return {};
  };
  expect(() => brokers.connectManager(connect)).toThrow(expect.objectContaining({ code: 'EVENKEEL_OPTION' }));
  resolver.update(createEndpoint({ address: '127.0.0.1', port: 5_672 }));
  await asked;
  expect([brokers.balancer.snapshot().waiting, inFlight()]).toEqual([0, 0]);
});

it('a client whose socket Node refuses to create leaves no call behind', async () => {
  await ready();
  const options = { socket: { localAddress: 'nowhere' } };
  for (let call = 0; call < 3; call++) {
    expect(() => brokers.createConnection(Connection, options as never)).toThrow('nowhere');
  }
  await settle();
  expect(inFlight()).toBe(0);
});

it('an option that evenkeel sets is refused without its value', async () => {
  await ready();
  expect(() => brokers.createConnection(Connection, { hosts: ['secret'] } as never)).toThrow(
    'options.hosts must be left out: evenkeel finds the brokers, got an array',
  );
  expect(() => brokers.createConnection(Connection, { url: 'secret' } as never)).toThrow(/, got a string$/);
});
