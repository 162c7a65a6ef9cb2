import { expect, it, vi } from 'vitest';
import { EvenkeelError } from '../../../src/index.js';
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

it.each(['key', 'priority'])(
  'a `%s` of EVENKEEL_CONFIG that throws ends no request: the app goes on without evenkeel',
  (name) => {
    const told = vi.fn();
    const fail = (): never => {
      throw new Error('no such customer');
    };
    const own = serviceOptionsOf({ [name]: fail }, told) as Record<string, (request: unknown) => unknown>;
    expect(own[name]?.({ path: '/' })).toBeUndefined();
    expect(told).toHaveBeenCalledExactlyOnceWith(new Error('no such customer'));
    const works = serviceOptionsOf({ [name]: ({ path }: { path: string }) => path }, told) as typeof own;
    expect(works[name]?.({ path: '/7' })).toBe('/7');
  },
);

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
