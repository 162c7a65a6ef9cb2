import { expect, it } from 'vitest';
import { checkPeer, isInRange } from '../../../src/runtime/peer-version.js';

it.each([
  ['7.0.0', '^7.0.0 || ^8.0.0', true],
  ['8.12.4', '^7.0.0 || ^8.0.0', true],
  ['6.21.3', '^7.0.0 || ^8.0.0', false],
  ['9.0.0', '^7.0.0 || ^8.0.0', false],
  ['9.0.0-alpha.1', '^7.0.0 || ^8.0.0', false],
  ['3.9.0', '^3.9.0', true],
  ['3.10.0', '^3.9.0', true],
  ['3.8.9', '^3.9.0', false],
  ['2.3.3', '^3.9.0', false],
  ['1.14.0', '>=1.14 <2', true],
  ['1.12.6', '>=1.14 <2', false],
  ['2.0.0', '>=1.14 <2', false],
  ['2.0.0', '^1.3.0 || ^2.0.1', false],
  ['1.0.0-alpha.2', '1.0.0-alpha.3', true],
])('version %s is in the range %s: %s', (version, range, included) => {
  expect(isInRange(version, range)).toBe(included);
});

it('an installed version that package.json includes is accepted', () => {
  for (const peer of ['undici', 'ws', 'pg', 'mysql2', '@grpc/grpc-js', 'not-installed']) {
    expect(() => checkPeer(peer, 'evenkeel/x', 'file:///app/check-version.js')).not.toThrow();
  }
});
