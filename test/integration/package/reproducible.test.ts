import { expect, test } from 'vitest';
// @ts-expect-error: a plain script without types
import { packTwice } from '../../../scripts/reproduce.mjs';

test('two builds of the same sources in different folders are the same bytes', () => {
  const [one, other] = packTwice() as string[];
  expect(one).toMatch(/^sha512-/);
  expect(other).toBe(one);
});
