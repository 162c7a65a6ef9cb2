import { expect, test } from 'vitest';
import { ownChunkOf } from '../../../scripts/build.mjs';

test.each(['/', '\\'])('a module goes into the same chunk if paths are separated by %s', (separator) => {
  const path = (/** @type {string[]} */ ...parts) => ['C:', 'evenkeel', 'src', ...parts].join(separator);
  expect(ownChunkOf(path('adapter', 'undici', 'check-version.ts'))).toBe('check-version-undici');
  expect(ownChunkOf(path('runtime', 'check.ts'))).toBe('base');
  expect(ownChunkOf(path('load', 'orca.ts'))).toBe('base');
  expect(ownChunkOf(path('errors.ts'))).toBe('base');
  expect(ownChunkOf(path('index.ts'))).toBe('core');
  expect(ownChunkOf(path('resolver', 'dns.ts'))).toBe('core');
  expect(ownChunkOf(path('resolver', 'kubernetes', 'index.ts'))).toBeUndefined();
  expect(ownChunkOf(path('adapter', 'http', 'answer.ts'))).toBe('http');
  expect(ownChunkOf(path('adapter', 'undici', 'fetch.ts'))).toBeUndefined();
});
