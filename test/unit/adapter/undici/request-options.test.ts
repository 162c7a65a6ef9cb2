import { afterEach, expect, it } from 'vitest';
import { ownOptions } from '../../../../src/adapter/undici/request-options.js';

const prototype = Object.prototype as unknown as Record<PropertyKey, unknown>;
afterEach(() => {
  delete prototype[Symbol.iterator];
  delete prototype['x-evil'];
});

const sent = (headers: object): unknown => ownOptions({ path: '/', method: 'GET', headers: headers as never }).headers;

it('headers in a plain object are sent as they are, whatever iterator Object.prototype has', () => {
  prototype[Symbol.iterator] = function* () {};
  const headers = sent({ hello: 'world' });
  expect(Object.keys(headers as object)).toEqual(['hello']);
});

it('properties of Object.prototype become no header', () => {
  prototype['x-evil'] = ['a', 'b'];
  expect(Object.keys(sent({ hello: 'world' }) as object)).toEqual(['hello']);
});
