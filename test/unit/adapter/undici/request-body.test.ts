import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { isRepeatable } from '../../../../src/adapter/undici/request-options.js';

/** As if every method were named in `retry.methods`. */
const retries = { methods: { has: () => true } } as never;
const get = { path: '/', method: 'GET' } as const;

describe('requests that can be sent twice', () => {
  it.each([
    get,
    { ...get, body: null },
    { ...get, body: 'text' },
    { ...get, body: new Uint8Array(3) },
    { ...get, body: Buffer.from('text') },
    { ...get, method: 'POST', body: '' },
  ])('include %j', (options) => {
    expect(isRepeatable(options as never, retries)).toBe(true);
  });

  it.each([
    ['what the caller says is not', { ...get, idempotent: false }],
    ['an upgrade', { ...get, upgrade: 'websocket' }],
    ['a tunnel: its connection is the caller’s own', { ...get, method: 'CONNECT' }],
    ['a stream', { ...get, body: Readable.from(['a']) }],
    ['what is iterated over', { ...get, body: (async function* () {})() }],
  ])('do not include %s', (_what, options) => {
    expect(isRepeatable(options as never, retries)).toBe(false);
  });
});
