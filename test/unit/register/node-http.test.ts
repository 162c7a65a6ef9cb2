import { AsyncLocalStorage } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import type { Agent, ClientRequest } from 'node:http';
import { expect, it } from 'vitest';
import { createEngine } from '../../../src/register/node-http.js';

it('a request that waits for a socket of its agent begins in its own async context', () => {
  const engine = createEngine({
    listed: ['orders.shop'],
    excluded: new Set(),
    config: {},
    shortName: (host) => host,
  });
  const agent = { protocol: 'http:', options: {}, maxSockets: 1 } as unknown as Agent;
  const context = new AsyncLocalStorage<string>();
  const begun: unknown[] = [];
  // A request that is for no path is passed on as soon as it begins.
  const route = (caller: string): ClientRequest => {
    const request = Object.assign(new EventEmitter(), { path: '*', method: 'OPTIONS' }) as unknown as ClientRequest;
    const options = { host: 'orders.shop', port: 8080 };
    context.run(caller, () => engine.route(agent, request, options, () => begun.push(context.getStore())));
    return request;
  };
  const first = route('ann');
  route('bob');
  expect(begun).toEqual(['ann']);
  context.run('ann', () => first.emit('close'));
  expect(begun).toEqual(['ann', 'bob']);
});
