import { describe, expect, it } from 'vitest';
import { closestOf } from '../../../src/runtime/did-you-mean.js';

const known = ['resolver', 'picker', 'waitTimeoutMs', 'maxWaiting', 'maxAgeMs', 'deadlineMs', 'key', 'signal', 'tls'];

describe('closestOf', () => {
  it.each([
    ['resolvr', 'resolver'],
    ['resolverr', 'resolver'],
    ['resolber', 'resolver'],
    ['pikcer', 'picker'],
    ['Picker', 'picker'],
    ['waittimeoutms', 'waitTimeoutMs'],
    ['maxAge', 'maxAgeMs'],
    ['deadline', 'deadlineMs'],
    ['sginal', 'signal'],
    ['kye', 'key'],
    ['KEY', 'key'],
  ])('%s was meant to be %s', (word, meant) => {
    expect(closestOf(word, known)).toBe(meant);
  });

  it.each([[''], ['k'], ['kx'], ['xyz'], ['ttl'], ['attempts'], ['resolveAllTheNames'], ['x'.repeat(10_000_000)]])(
    '%.20s resembles no option',
    (word) => {
      expect(closestOf(word, known)).toBeUndefined();
    },
  );

  it('takes the closest, and the first of several equally close', () => {
    expect(closestOf('minLoad', ['maxLoad', 'minLoads', 'minLoda'])).toBe('minLoads');
    expect(closestOf('minLoad', [])).toBeUndefined();
  });
});
