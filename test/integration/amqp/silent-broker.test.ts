import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { staticEndpoints } from 'evenkeel';
import { createBrokers } from 'evenkeel/amqp';
import { expect, it } from 'vitest';

it('a broker that accepts and stays silent is not tried again once waitTimeoutMs is over', async () => {
  const server = createServer((socket) => void socket.on('error', () => {}).resume());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const resolver = staticEndpoints([{ address: '127.0.0.1', port }]);
  const brokers = createBrokers('amqp://rabbit.shop', {
    resolver,
    waitTimeoutMs: 800,
    pool: { connectTimeoutMs: 900 },
  });
  let dials = 0;
  const silent = (): Promise<object> => {
    dials++;
    return new Promise(() => {});
  };
  await expect(brokers.connect(silent)).rejects.toMatchObject({ code: 'EVENKEEL_NOT_READY' });
  expect(dials).toBe(1);
  await brokers.close({ signal: AbortSignal.abort() });
  server.close();
});
