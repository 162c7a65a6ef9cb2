import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { describe, expect, it } from 'vitest';
import { createAgent, nodeHttpTransport } from '../../../../src/adapter/node-http/index.js';
import { staticEndpoints } from '../../../../src/resolver/static.js';

const refused = (part: string): unknown =>
  expect.objectContaining({ code: 'EVENKEEL_OPTION', message: expect.stringContaining(part) });
const resolver = staticEndpoints([{ address: '127.0.0.1', port: 1 }]);

describe('createAgent', () => {
  it.each([
    ['no URL', 'orders.shop:8080', {}, 'target must be a URL'],
    ['a path', 'http://orders.shop/v1', {}, 'without a path'],
    ['an unknown option', 'http://orders.shop', { conections: 3 }, '"conections"'],
    ['an option of Node’s Agent', 'http://orders.shop', { maxSockets: 3 }, '"maxSockets"'],
    ['null', 'http://orders.shop', null, 'options must be an object'],
    ['connections', 'http://orders.shop', { connections: 0 }, 'connections'],
    ['tls for http', 'http://orders.shop', { tls: {} }, 'tls must be left out'],
    ['an address in tls', 'https://orders.shop', { tls: { host: 'x' } }, 'tls.host'],
    ['an idle time', 'http://orders.shop', { keepAliveTimeoutMs: 0 }, 'keepAliveTimeoutMs'],
    ['a probe time', 'http://orders.shop', { tcpKeepAliveMs: 1 }, 'tcpKeepAliveMs'],
    ['a health path', 'http://orders.shop', { healthPath: 'healthz' }, 'healthPath'],
    ['fallbackAgent', 'http://orders.shop', { fallbackAgent: {} }, 'fallbackAgent must be an Agent'],
    ['key', 'http://orders.shop', { key: 'x-user' }, 'key must be a function'],
    ['the domain', 'http://orders.shop', { clusterDomain: 'a b' }, 'clusterDomain'],
    ['a picker', 'http://orders.shop', { picker: 'p2c' }, 'picker'],
    ['a deadline', 'http://orders.shop', { deadlineMs: '1s' }, 'deadlineMs must be a number or a function'],
    ['attempts', 'http://orders.shop', { retry: { maxAttempts: 0 } }, 'retry.maxAttempts'],
    [
      'statuses',
      'http://orders.shop',
      { retry: { statuses: [503] } },
      '"retry.statuses", because Node sends a request once',
    ],
    [
      'methods',
      'http://orders.shop',
      { retry: { methods: ['GET'] } },
      '"retry.methods", because Node sends a request once',
    ],
    [
      'a rule',
      'http://orders.shop',
      { retry: { when: () => true } },
      '"retry.when", because Node sends a request once',
    ],
    ['hedging', 'http://orders.shop', { hedge: { afterMs: 5 } }, 'repeat requests in your client (axios-retry'],
    ['no resolver at all', 'http://orders.shop', { resolver: null }, 'resolver'],
  ])('refuses %s (%s, %j)', (_what, target, options, part) => {
    const given = options === null ? null : { resolver, ...options };
    expect(() => createAgent(target, given as never)).toThrow(refused(part));
  });

  it('is an Agent of the kind the target needs', async () => {
    const plain = createAgent('http://orders.shop:8080', { resolver });
    const secure = createAgent('https://orders.shop:8443', { resolver });
    expect(plain).toBeInstanceOf(HttpAgent);
    expect(plain).not.toBeInstanceOf(HttpsAgent);
    expect(secure).toBeInstanceOf(HttpsAgent);
    expect([plain, secure]).toMatchObject([
      { protocol: 'http:', defaultPort: 80, keepAlive: true, sockets: {}, freeSockets: {}, requests: {} },
      { protocol: 'https:', defaultPort: 443, keepAlive: true },
    ]);
    expect(plain.getName({ host: 'orders.shop', port: 8080 })).toBe('orders.shop:8080:');
    plain.destroy();
    await secure[Symbol.asyncDispose]();
    expect([plain, secure].map(({ balancer }) => balancer.snapshot().state)).toEqual(['closed', 'closed']);
  });

  it('accepts a URL object, and every option', async () => {
    const agent = createAgent(new URL('https://orders.shop:8443'), {
      resolver,
      connections: 4,
      tls: { rejectUnauthorized: true },
      keepAliveTimeoutMs: 5_000,
      tcpKeepAliveMs: 1_000,
      healthPath: '/healthz',
      fallbackAgent: new HttpsAgent(),
      key: () => undefined,
      deadlineMs: () => 1_000,
      retry: { maxAttempts: 2, budget: { ratio: 0.1 } },
      clusterDomain: 'corp.example',
      pool: { connectTimeoutMs: 100 },
    });
    await agent.close();
  });
});

describe('nodeHttpTransport', () => {
  it.each([
    [{}, 'origin'],
    [{ origin: 'orders.shop' }, 'origin'],
    [{ origin: 'http://orders.shop', fallbackAgent: 1 }, '"fallbackAgent"'],
    [{ origin: 'http://orders.shop', connectTimeoutMs: 0 }, 'connectTimeoutMs'],
  ])('refuses %j', (options, part) => {
    expect(() => nodeHttpTransport(options as never)).toThrow(refused(part));
  });
});
