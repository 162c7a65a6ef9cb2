import { expect, it, vi } from 'vitest';
import { EvenkeelError, prefixKey } from '../../../src/index.js';
import { serviceOptionsOf, stockError } from '../../../src/register/engine.js';

const giveUp = vi.fn();
const origin = new URL('http://orders.shop:8080');

it.each([
  ['nothing', undefined, { waitWhileRefused: false }],
  ['options', { waitTimeoutMs: 9 }, { waitWhileRefused: false, waitTimeoutMs: 9 }],
  ['options that say otherwise', { waitWhileRefused: true }, { waitWhileRefused: true }],
])('requests do not wait while every pod refuses, with %s in EVENKEEL_CONFIG', (_what, config, expected) => {
  expect(serviceOptionsOf(config, giveUp)).toEqual(expected);
  const perService = serviceOptionsOf(() => config, giveUp) as (origin: URL) => unknown;
  expect(perService(origin)).toEqual(expected);
});

type Ask = (request?: unknown) => unknown;
const fail = (): never => {
  throw new Error('no such customer');
};

it.each([
  ['key', fail, 'no such customer'],
  ['key', async () => fail(), 'key() must be no promise, got a promise'],
  ['priority', fail, 'no such customer'],
  ['priority', () => 'urgent', 'priority must be one of critical, default, sheddable, got "urgent"'],
  ['deadlineMs', fail, 'no such customer'],
  ['deadlineMs', () => 'soon', 'deadlineMs() must be a number'],
  ['onBalancer', fail, 'no such customer'],
])('a `%s` of EVENKEEL_CONFIG that is %s ends no request: the app goes on without evenkeel', (name, ask, message) => {
  const told = vi.fn();
  const own = serviceOptionsOf({ [name]: ask }, told) as Record<string, Ask>;
  expect(own[name]?.({ path: '/' })).toBeUndefined();
  expect(told).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ message: expect.stringContaining(message) }));
});

it('a `propagate.context` of EVENKEEL_CONFIG that throws ends no request: the app goes on without evenkeel', () => {
  const told = vi.fn();
  const propagate = { deadlineHeader: 'x-left', context: { current: fail } };
  const own = serviceOptionsOf({ propagate }, told) as { readonly propagate: typeof propagate };
  expect(own.propagate.context.current()).toBeUndefined();
  expect(own.propagate.deadlineHeader).toBe('x-left');
  expect(told).toHaveBeenCalledExactlyOnceWith(new Error('no such customer'));
});

it.each([
  ['key', '/7'],
  ['key', null],
  ['priority', 'critical'],
  ['priority', undefined],
  ['deadlineMs', 900],
  ['deadlineMs', undefined],
])('what a `%s` of EVENKEEL_CONFIG returns for a request counts: %s', (name, answer) => {
  const ask = vi.fn(() => answer);
  const own = serviceOptionsOf(() => ({ [name]: ask }), giveUp) as (origin: URL) => Record<string, Ask>;
  expect(own(origin)[name]?.({ path: '/7' })).toBe(answer);
  expect(ask).toHaveBeenCalledExactlyOnceWith({ path: '/7' });
});

it('a `key` made by prefixKey() in EVENKEEL_CONFIG brings its picker', () => {
  const key = prefixKey({ header: 'x-conversation-id' });
  const own = serviceOptionsOf({ key }, giveUp) as { readonly key: typeof key };
  expect(own.key.picker).toBe(key.picker);
  expect(own.key.readsHeader).toBe(true);
});

it('gRPC: a key and a priority of EVENKEEL_CONFIG may be the names of metadata entries', () => {
  const grpc = { key: 'user', priority: 'urgency' };
  expect(serviceOptionsOf(grpc, giveUp, {})).toEqual(grpc);
  expect(serviceOptionsOf(undefined, giveUp, {})).toEqual({});
});

it.each([['text'], [7], [null], [Promise.resolve({})]])('values that are not options stay unchanged: %o', (config) => {
  expect(serviceOptionsOf(config, giveUp)).toBe(config);
});

it.each([
  ['EVENKEEL_NO_ENDPOINTS', 'ECONNREFUSED'],
  ['EVENKEEL_CONNECT', 'ECONNREFUSED'],
  ['EVENKEEL_NOT_READY', 'ETIMEDOUT'],
  ['EVENKEEL_DEADLINE', 'ETIMEDOUT'],
] as const)('an app gets %s, with no error of its library behind it, as %s', (code, expected) => {
  const error = new EvenkeelError(code, 'why');
  expect(stockError(error, 'orders.shop:8080')).toMatchObject({
    code: expected,
    message: `connect ${expected} orders.shop:8080`,
    cause: error,
  });
});
