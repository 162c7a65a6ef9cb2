import { describe, expect, it } from 'vitest';
import { createDispatcher, createFetch, undiciTransport } from '../../../../src/adapter/undici/index.js';
import { staticEndpoints } from '../../../../src/resolver/static.js';

const refused = (part: string): unknown =>
  expect.objectContaining({ code: 'EVENKEEL_OPTION', message: expect.stringContaining(part) });
const resolver = staticEndpoints([{ address: '127.0.0.1', port: 1 }]);

describe('createDispatcher and createFetch', () => {
  it.each([
    ['no URL', 'orders.shop:8080', {}, 'target must be a URL'],
    ['an unknown option', 'http://orders.shop', { conections: 3 }, '"conections"'],
    ['an option of undici', 'http://orders.shop', { pipelining: 3 }, '"pipelining"'],
    ['null', 'http://orders.shop', null, 'options must be an object'],
    ['connections', 'http://orders.shop', { connections: 0 }, 'connections'],
    ['tls for http', 'http://orders.shop', { tls: {} }, 'tls must be left out'],
    ['tls of the wrong kind', 'https://orders.shop', { tls: 'ca' }, 'tls must be an object'],
    ['an address in tls', 'https://orders.shop', { tls: { host: 'x' } }, 'tls.host'],
    ['allowH2 for http', 'http://orders.shop', { allowH2: true }, 'allowH2'],
    ['useH2c of the wrong kind', 'http://orders.shop', { useH2c: 'yes' }, 'useH2c must be true or false'],
    ['useH2c for https', 'https://orders.shop', { useH2c: true }, 'useH2c must be false for https: targets'],
    ['useH2c with undici 7', 'http://orders.shop', { useH2c: true }, 'useH2c must be false with undici 7'],
    ['a timeout', 'http://orders.shop', { headersTimeoutMs: -1 }, 'headersTimeoutMs'],
    ['a timeout', 'http://orders.shop', { bodyTimeoutMs: '5 s' }, 'bodyTimeoutMs'],
    ['a deadline', 'http://orders.shop', { deadlineMs: 0 }, 'deadlineMs must be a number from 1'],
    ['a deadline', 'http://orders.shop', { deadlineMs: '5s' }, 'deadlineMs must be a number or a function'],
    ['hedge', 'http://orders.shop', { hedge: true }, 'hedge must be an object'],
    ['hedge without a time', 'http://orders.shop', { hedge: {} }, 'either afterMs or afterQuantile'],
    ['hedge', 'http://orders.shop', { hedge: { afterMs: 5, afterQuantile: 0.9 } }, 'either afterMs or afterQuantile'],
    ['hedge', 'http://orders.shop', { hedge: { afterMs: 0 } }, 'hedge.afterMs'],
    ['hedge', 'http://orders.shop', { hedge: { afterQuantile: 1 } }, 'hedge.afterQuantile'],
    ['hedge', 'http://orders.shop', { hedge: { afterQuantile: 95 } }, 'hedge.afterQuantile'],
    ['hedge', 'http://orders.shop', { hedge: { afterMs: 5, max: 0 } }, 'hedge.max'],
    ['statuses', 'http://orders.shop', { retry: { statuses: [200] } }, 'retry.statuses[0]'],
    ['a health path', 'http://orders.shop', { healthPath: 'healthz' }, 'healthPath'],
    [
      'fallbackDispatcher',
      'http://orders.shop',
      { fallbackDispatcher: {} },
      'fallbackDispatcher must be an undici Dispatcher',
    ],
    ['key', 'http://orders.shop', { key: 'x-user' }, 'key must be a function'],
    ['the domain', 'http://orders.shop', { clusterDomain: 'a b' }, 'clusterDomain'],
    ['a picker', 'http://orders.shop', { picker: 'p2c' }, 'picker'],
    ['a resolver', 'http://orders.shop', { resolver: 3 }, 'resolver'],
    ['no resolver at all', 'http://orders.shop', { resolver: null }, 'resolver'],
  ])('refuses %s (%s, %j)', (_what, target, options, part) => {
    const given = { ...options, ...(options !== null && !('resolver' in options) && { resolver }) } as never;
    expect(() => createDispatcher(target, options === null ? (null as never) : given)).toThrow(refused(part));
    expect(() => createFetch(target, options === null ? (null as never) : given)).toThrow(refused(part));
  });

  it('refuses an invalid URL to fetch, with the error of the global fetch', async () => {
    const orders = createFetch('http://orders.shop', { resolver });
    const answer = orders('http://');
    await expect(answer).rejects.toBeInstanceOf(TypeError);
    await expect(answer).rejects.toThrow('http://');
    await orders.close();
  });

  it('accepts a URL object, and every option', async () => {
    const dispatcher = createDispatcher(new URL('https://orders.shop:8443'), {
      resolver,
      connections: 4,
      tls: { rejectUnauthorized: true },
      allowH2: false,
      useH2c: false,
      maxConcurrentStreams: 10,
      keepAliveTimeoutMs: 5_000,
      tcpKeepAliveMs: 1_000,
      headersTimeoutMs: 0,
      bodyTimeoutMs: 0,
      maxHeaderSize: 8_192,
      maxResponseSize: 1_000_000,
      healthPath: '/healthz',
      key: () => undefined,
      clusterDomain: 'corp.example',
      pool: { connectTimeoutMs: 100 },
    });
    await dispatcher.destroy();
  });
});

describe('undiciTransport', () => {
  it.each([
    [{}, 'origin'],
    [{ origin: 'orders.shop' }, 'origin'],
    [{ origin: 'http://orders.shop', fallbackDispatcher: 1 }, '"fallbackDispatcher"'],
    [{ origin: 'http://orders.shop', connectTimeoutMs: 0 }, 'connectTimeoutMs'],
  ])('refuses %j', (options, part) => {
    expect(() => undiciTransport(options as never)).toThrow(refused(part));
  });
});
