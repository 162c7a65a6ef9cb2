import { AsyncLocalStorage } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import type { Agent, ClientRequest } from 'node:http';
import { expect, it } from 'vitest';
import { createEngine } from '../../../src/register/node-http.js';

const open = (): ReturnType<typeof createEngine> =>
  createEngine({
    listed: ['orders.shop'],
    excluded: new Set(),
    config: {},
    shortName: (host) => host,
    giveUp: () => {},
  });

const agentOf = (maxSockets: number): Agent => ({ protocol: 'http:', options: {}, maxSockets }) as unknown as Agent;

/** A request that is for no path, so that it is passed on as soon as it begins. */
function requestWith(onSocket?: ClientRequest['onSocket']): ClientRequest {
  const request = Object.assign(new EventEmitter(), { path: '*', method: 'OPTIONS', onSocket });
  return request as unknown as ClientRequest;
}

const target = { host: 'orders.shop', port: 8080 };

it('a request that waits for a socket of its agent begins in its own async context', () => {
  const engine = open();
  const agent = agentOf(1);
  const context = new AsyncLocalStorage<string>();
  const begun: unknown[] = [];
  const route = (caller: string): ClientRequest => {
    const request = requestWith();
    context.run(caller, () => engine.route(agent, request, target, () => begun.push(context.getStore())));
    return request;
  };
  const first = route('ann');
  route('bob');
  expect(begun).toEqual(['ann']);
  context.run('ann', () => first.emit('close'));
  expect(begun).toEqual(['ann', 'bob']);
});

it('a request that Node refuses takes no socket from others, whether it had to wait or not', () => {
  const engine = open();
  const agent = agentOf(1);
  const refusal = new TypeError('the Host header is no text');
  const refuse = (): never => {
    throw refusal;
  };
  expect(() => engine.route(agent, requestWith(), target, refuse)).toThrow(refusal);
  const heard: unknown[] = [];
  const first = requestWith();
  engine.route(agent, first, target, () => heard.push('first'));
  const onSocket = (_socket: unknown, error?: unknown): void => void heard.push(error);
  engine.route(agent, requestWith(onSocket as ClientRequest['onSocket']), target, refuse);
  engine.route(agent, requestWith(), target, () => heard.push('last'));
  expect(heard).toEqual(['first']);
  first.emit('close');
  expect(heard).toEqual(['first', 'last', refusal]);
});
