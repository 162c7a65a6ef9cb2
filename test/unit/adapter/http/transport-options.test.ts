import { expect, it } from 'vitest';
import { type HttpTransportOptions, resolveHttpTransport } from '../../../../src/adapter/http/transport-options.js';
import { systemClock } from '../../../../src/index.js';
import { poolDefaults } from '../../../../src/pool/pool-options.js';

const errors = { timedOut: (message: string) => new Error(message), closed: (message: string) => new Error(message) };
const resolve = (options: Partial<HttpTransportOptions> = {}, allowH2 = false) =>
  resolveHttpTransport({ origin: 'https://orders.shop', ...options }, { allowH2, errors });

it('fills in what is left out', () => {
  expect(resolve()).toMatchObject({
    dial: { connectTimeoutMs: poolDefaults.connectTimeoutMs, tcpKeepAliveMs: 15_000, allowH2: false, tls: {}, errors },
    connections: Number.POSITIVE_INFINITY,
    healthPath: undefined,
    clock: systemClock,
  });
  expect(resolve().dial.origin.href).toBe('https://orders.shop/');
});

it('accepts valid values', () => {
  const tls = { ca: 'PEM' };
  const options = { tls, connections: 1, connectTimeoutMs: 1, tcpKeepAliveMs: 1_000, healthPath: '/healthz' };
  expect(resolve(options, true)).toMatchObject({
    dial: { connectTimeoutMs: 1, tcpKeepAliveMs: 1_000, allowH2: true, tls },
    connections: 1,
    healthPath: '/healthz',
  });
});

it('keeps the TLS settings as they were given, even if the object is changed later', () => {
  const tls: { ca: string; cert?: string } = { ca: 'PEM' };
  const { dial } = resolve({ tls });
  tls.ca = 'other PEM';
  tls.cert = 'PEM';
  expect(dial.tls).toEqual({ ca: 'PEM' });
});

it.each([
  ['allowH2', { origin: 'http://orders.shop' }, true],
  ['tls', { origin: 'http://orders.shop', tls: {} }, false],
  ['origin', { origin: 'orders.shop' }, false],
  ['healthPath', { healthPath: 'healthz' }, false],
  ['connections', { connections: 0 }, false],
  ['connectTimeoutMs', { connectTimeoutMs: 0 }, false],
  ['tcpKeepAliveMs', { tcpKeepAliveMs: 999 }, false],
])('refuses an invalid %s', (name, options, allowH2) => {
  const refused = expect.objectContaining({ code: 'EVENKEEL_OPTION', message: expect.stringContaining(name) });
  expect(() => resolve(options, allowH2)).toThrow(refused);
});
