import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { missingEntries, missingHashes, platformOf, recordedAddresses } from '../../../scripts/lockfile.mjs';

const { packages } = JSON.parse(readFileSync(join(import.meta.dirname, '../../../package-lock.json'), 'utf8'));

test('npm ci accepts the lockfile on every platform (else: node scripts/lockfile.mjs --fix)', () => {
  expect(missingEntries(packages)).toEqual([]);
});

test('npm verifies every package that it downloads (else: node scripts/lockfile.mjs --fix)', () => {
  expect(missingHashes(packages)).toEqual([]);
  expect(missingHashes({ '': {}, 'node_modules/a': { version: '1.0.0' } })).toEqual(['node_modules/a']);
});

test('the lockfile records no download address', () => {
  expect(recordedAddresses(packages)).toEqual([]);
});

test('a missing platform is found, one that is hoisted or nested is not reported', () => {
  const lock = {
    'node_modules/a': { optionalDependencies: { 'a-linux-x64': '1.0.0', 'a-darwin-arm64': '1.0.0' }, dev: true },
    'node_modules/a-linux-x64': { version: '1.0.0' },
    'node_modules/b/node_modules/c': { optionalDependencies: { d: '2.0.0', e: '3.0.0', ranged: '>=1' } },
    'node_modules/b/node_modules/d': { version: '2.0.0' },
    'node_modules/b/node_modules/c/node_modules/e': { version: '3.0.0' },
  };
  expect(missingEntries(lock)).toEqual([{ name: 'a-darwin-arm64', version: '1.0.0', dev: true }]);
});

test('the platform is read from the name', () => {
  expect(platformOf('@x/cli-linux-x64-musl')).toEqual({ os: ['linux'], cpu: ['x64'], libc: ['musl'] });
  expect(platformOf('@x/cli-win32-arm64')).toEqual({ os: ['win32'], cpu: ['arm64'] });
  expect(platformOf('left-pad')).toBeUndefined();
});
