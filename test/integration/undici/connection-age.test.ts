import { once } from 'node:events';
import { createServer, get, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { staticEndpoints } from 'evenkeel';
import { createAgent } from 'evenkeel/node-http';
import { createAppAgent, createFetch } from 'evenkeel/undici';
import { afterEach, describe, expect, it } from 'vitest';
import { until } from '../../support/until.js';

/** A connection lasts between 0.5 and 1.5 s here, and what outlasts it would have no time at all. */
const pool = { maxConnectionAgeMs: 1_000, drainTimeoutMs: 0 };

interface Client {
  /** The whole body of the one long response. */
  answer(): Promise<string>;
  close(): Promise<void>;
}

const clients: Record<string, (endpoint: { address: string; port: number }) => Client> = {
  createFetch: (endpoint) => {
    const orders = createFetch('http://orders.shop:8080', { resolver: staticEndpoints([endpoint]), pool });
    return { answer: async () => (await orders('/')).text(), close: () => orders.close() };
  },
  createAppAgent: (endpoint) => {
    const agent = createAppAgent({
      services: ['orders.shop'],
      options: () => ({ resolver: staticEndpoints([endpoint]), pool }),
    });
    const answer = async (): Promise<string> => {
      const { body } = await agent.request({ origin: 'http://orders.shop:8080', path: '/', method: 'GET' });
      return body.text();
    };
    return { answer, close: () => agent.close() };
  },
  createAgent: (endpoint) => {
    const agent = createAgent('http://orders.shop:8080', { resolver: staticEndpoints([endpoint]), pool });
    const answer = async (): Promise<string> => {
      const [response] = (await once(get('http://orders.shop:8080/', { agent }), 'response')) as [IncomingMessage];
      return text(response);
    };
    return { answer, close: () => agent.close() };
  },
};

describe('a response that takes longer than its connection may live', () => {
  let server: Server;
  let client: Client;

  afterEach(async () => {
    await client.close();
    server.close();
    await once(server, 'close');
  });

  it.each(Object.keys(clients))('arrives complete (%s)', async (name) => {
    let connections = 0;
    let finish: (() => void) | undefined;
    server = createServer((_, response) => {
      response.write('first ');
      finish = () => void response.end('last');
    });
    server.on('connection', () => connections++);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    client = (clients[name] as (typeof clients)[string])({
      address: '127.0.0.1',
      port: (server.address() as AddressInfo).port,
    });
    let over = false;
    const answer = client.answer().catch((error: Error) => error);
    void answer.then(() => {
      over = true;
    });
    await until('the response has begun', () => finish !== undefined);
    const before = connections;
    await until('its connection was replaced twice', () => over || connections >= before + 2);
    finish?.();
    expect(await answer).toBe('first last');
  });
});
