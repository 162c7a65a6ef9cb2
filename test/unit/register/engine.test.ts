import { expect, it } from 'vitest';
import { serviceOptionsOf } from '../../../src/register/engine.js';

const origin = new URL('http://orders.shop:8080');

it.each([
  ['nothing', undefined, { waitWhileRefused: false }],
  ['options', { waitTimeoutMs: 9 }, { waitWhileRefused: false, waitTimeoutMs: 9 }],
  ['options that say otherwise', { waitWhileRefused: true }, { waitWhileRefused: true }],
])('requests do not wait while every pod refuses, with %s in EVENKEEL_CONFIG', (_what, config, expected) => {
  expect(serviceOptionsOf(config)).toEqual(expected);
  const perService = serviceOptionsOf(() => config) as (origin: URL) => unknown;
  expect(perService(origin)).toEqual(expected);
});

it.each([['text'], [7], [null], [Promise.resolve({})]])('what is no options stays as it is: %o', (config) => {
  expect(serviceOptionsOf(config)).toBe(config);
});
