import { describe, expect, it } from 'vitest';
import { createBrokers } from '../../../src/adapter/amqp/index.js';
import { createPool } from '../../../src/adapter/pg/index.js';
import { createDispatcher } from '../../../src/adapter/undici/index.js';
import { createWebSockets } from '../../../src/adapter/ws/index.js';
import { staticEndpoints } from '../../../src/index.js';

const resolver = staticEndpoints([{ address: '127.0.0.1', port: 9 }]);
const symbol = Symbol('odd');
/** Values of which JavaScript makes no text, number or both. */
const odd: readonly unknown[] = [symbol, [symbol], Object.create(null)];

const entryPoints: Readonly<Record<string, (value: unknown) => unknown>> = {
  'url of createBrokers': (url) => createBrokers(url as string),
  'url of createWebSockets': (url) => createWebSockets(url as string),
  'leaveCode of createWebSockets': (leaveCode) => createWebSockets('ws://chat.shop', { resolver, leaveCode } as never),
  'host of createPool': (host) => createPool({ resolver, user: 'app', host } as never),
  'port of createPool': (port) => createPool({ resolver, user: 'app', host: 'pg.shop', port } as never),
  'pool.drainTimeoutMs of createDispatcher': (drainTimeoutMs) =>
    createDispatcher('http://orders.shop', { resolver, pool: { drainTimeoutMs } } as never),
};

describe.each(Object.entries(entryPoints))('%s', (_name, make) => {
  it('is refused as an option, whatever its form', () => {
    for (const value of odd) {
      expect(() => make(value)).toThrow(expect.objectContaining({ code: 'EVENKEEL_OPTION' }));
    }
  });
});
