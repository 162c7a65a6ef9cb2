import { EventEmitter } from 'node:events';
import { afterEach, expect, it } from 'vitest';
import { type Brokers, createBrokers } from '../../../../src/adapter/amqp/index.js';

let brokers: Brokers;
afterEach(() => brokers.close());

/** A client of a version that evenkeel does not know: it dials at once, and tells of failures by `error`. */
class OtherClient extends EventEmitter {
  isClosed = false;

  async close(): Promise<void> {
    this.isClosed = true;
    throw new Error('it was not open');
  }
}

it.each(['createConnection', 'connectManager'] as const)(
  '%s ends the client of a version that it refuses, and keeps its errors from the process',
  async (method) => {
    brokers = createBrokers('amqp://rabbit.shop', { resolver: 'static:127.0.0.1:1' });
    const made: OtherClient[] = [];
    class Made extends OtherClient {
      constructor() {
        super();
        made.push(this);
      }
    }
    const attempt = (): unknown =>
      method === 'createConnection' ? brokers.createConnection(Made) : brokers.connectManager(() => new Made());
    expect(attempt).toThrow(expect.objectContaining({ code: 'EVENKEEL_OPTION' }));
    const [client] = made as [OtherClient];
    expect(client.isClosed).toBe(true);
    expect(() => client.emit('error', new Error('getaddrinfo ENOTFOUND'))).not.toThrow();
  },
);

it('connect closes a connection that is none of amqplib', async () => {
  brokers = createBrokers('amqp://rabbit.shop', { resolver: 'static:127.0.0.1:1' });
  const client = new OtherClient();
  await expect(brokers.connect(async () => client)).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
  expect(client.isClosed).toBe(true);
});
