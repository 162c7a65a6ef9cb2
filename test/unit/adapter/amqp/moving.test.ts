import { EventEmitter } from 'node:events';
import { expect, it, vi } from 'vitest';
import { createBrokers } from '../../../../src/adapter/amqp/index.js';
import { createEndpoint } from '../../../../src/endpoint/endpoint.js';
import { FakeClock, settle } from '../../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../../src/testing/fake-resolver.js';

const endpoints = [1, 2].map((last) => createEndpoint({ address: `10.0.0.${last}`, port: 5_672 }));

class FakeChannel {
  isWaiting = false;
  /** How often somebody looked whether it waits for an answer. */
  looks = 0;

  get reply(): (() => void) | null {
    this.looks++;
    return this.isWaiting ? () => {} : null;
  }
}

/** A manager as amqp-connection-manager has them, connected to whatever it is told. */
class FakeManager extends EventEmitter {
  readonly channel = new FakeChannel();
  readonly connection = Object.assign(new EventEmitter(), {
    connection: Object.assign(new EventEmitter(), { channels: [null, { channel: this.channel }] }),
    close: async () => {},
  });
  readonly reconnect = vi.fn();

  async close(): Promise<void> {}

  connectionOf(findServers: () => Promise<unknown>): Promise<void> {
    return findServers().then(() => void this.emit('connect', { connection: this.connection }));
  }
}

it('a manager moves once its channels have the replies to their commands, or after a second', async () => {
  for (const isAnswered of [true, false]) {
    const clock = new FakeClock();
    const resolver = new FakeResolver();
    const brokers = createBrokers('amqp://rabbit.shop:5672', { resolver, clock });
    const manager = brokers.connectManager((_urls: undefined, options?: { findServers?: () => Promise<unknown> }) => {
      const made = new FakeManager();
      void made.connectionOf(options?.findServers as () => Promise<unknown>);
      return made;
    });
    resolver.update(...endpoints);
    for (let step = 0; step < 5; step++) await clock.advanceAsync(50);
    const used = brokers.balancer.snapshot().endpoints.find(({ inFlight }) => inFlight === 1)?.key;
    // `prefetch`, say, whose promise the manager ignores.
    manager.channel.isWaiting = true;
    resolver.update(...endpoints.filter(({ key }) => key !== used));
    // It leaves at some moment within the time it has.
    const begins = (): boolean => manager.channel.looks > 0 || manager.reconnect.mock.calls.length > 0;
    for (let step = 0; step < 1_000 && !begins(); step++) await clock.advanceAsync(50);
    for (let step = 0; step < 10; step++) await clock.advanceAsync(50);
    expect(manager.channel.looks).toBeGreaterThan(0);
    expect(manager.reconnect).not.toHaveBeenCalled();
    if (isAnswered) manager.channel.isWaiting = false;
    for (let step = 0; step < (isAnswered ? 1 : 20); step++) await clock.advanceAsync(50);
    expect(manager.reconnect).toHaveBeenCalledOnce();
    const closing = brokers.close({ signal: AbortSignal.abort() });
    manager.emit('disconnect', {});
    manager.connection.connection.emit('close');
    await settle();
    await closing;
  }
});
