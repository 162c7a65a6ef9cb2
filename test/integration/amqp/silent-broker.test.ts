import type { LookupFunction } from 'node:net';
import { staticEndpoints } from 'evenkeel';
import { createBrokers } from 'evenkeel/amqp';
import { expect, it } from 'vitest';
import { SilentServer } from '../../support/pods/silent-server.js';

it('three silent brokers are each tried once by the time that waitTimeoutMs is over', async () => {
  const servers = await Promise.all([1, 2, 3].map(() => SilentServer.start()));
  expect(await dialsOf(servers)).toBe(3);
});

it('a broker that accepts and stays silent is not tried again once waitTimeoutMs is over', async () => {
  expect(await dialsOf([await SilentServer.start()])).toBe(1);
});

/** How often a connection that waits for one of these brokers dials until it gives up. Closes the brokers. */
async function dialsOf(servers: readonly SilentServer[]): Promise<number> {
  const brokers = createBrokers('amqp://rabbit.shop', {
    resolver: staticEndpoints(servers.map(({ endpoint }) => endpoint)),
    waitTimeoutMs: 3_000,
    pool: { connectTimeoutMs: 3_500 },
  });
  let dials = 0;
  const silent = (): Promise<object> => {
    dials++;
    return new Promise(() => {});
  };
  await expect(brokers.connect(silent)).rejects.toMatchObject({ code: 'EVENKEEL_NOT_READY' });
  await brokers.close({ signal: AbortSignal.abort() });
  for (const server of servers) await server[Symbol.asyncDispose]();
  return dials;
}

it('a silent broker is tried at both of its addresses, each for connectTimeoutMs', async () => {
  const dialed: string[] = [];
  const silent = (_url: string, options?: object): Promise<object> => {
    const { lookup } = options as { readonly lookup: LookupFunction };
    lookup('rabbit.shop', {}, (_error, address) => void dialed.push(String(address)));
    return new Promise(() => {});
  };
  const brokers = createBrokers('amqp://rabbit.shop', {
    resolver: staticEndpoints([{ address: '10.0.0.1', otherAddress: 'fd00::1', port: 5672 }]),
    waitTimeoutMs: 100,
    pool: { connectTimeoutMs: 100 },
  });
  const error = await brokers.connect(silent).catch((reason: unknown) => reason);
  expect(dialed).toEqual(['10.0.0.1', 'fd00::1']);
  expect(String(error)).toContain('10.0.0.1:5672: it did not accept within 100 ms; no connection to [fd00::1]:5672');
  await brokers.close({ signal: AbortSignal.abort() });
});
