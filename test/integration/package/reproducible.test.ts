import { expect, test } from 'vitest';
// @ts-expect-error: a plain script without types
import { packTwice } from '../../../scripts/reproduce.mjs';
import { titleOf } from '../../support/title-of.js';

const isProof = process.env.EVENKEEL_PROOF === '1';
const what = 'two builds of the same sources in different folders are the same bytes';

test.runIf(isProof)(titleOf(what, isProof, 'npm run proof -- reproducible'), () => {
  const [one, other] = packTwice() as string[];
  expect(one).toMatch(/^sha512-/);
  expect(other).toBe(one);
});
