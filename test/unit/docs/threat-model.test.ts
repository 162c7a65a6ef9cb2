import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { textOf } from '../../support/docs-page.js';

const claims = [...textOf('docs/threat-model.md').matchAll(/\[([^\]]+)\]\((\.\.\/test\/[^)]+)\)/g)].map(
  ([, title = '', file = '']) => ({ title, file: fileURLToPath(new URL(`../../../docs/${file}`, import.meta.url)) }),
);

describe('docs/threat-model.md', () => {
  it('backs its claims with tests', () => {
    expect(claims.length).toBeGreaterThan(40);
  });

  it('names tests that exist, by their titles', () => {
    const missing = claims.filter(
      ({ title, file }) =>
        !existsSync(file) || (title !== 'fuzzing' && !readFileSync(file, 'utf8').includes(`'${title}'`)),
    );
    expect(missing).toEqual([]);
  });
});
