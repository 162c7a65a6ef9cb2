import { expect, test } from 'vitest';
import { withHoldingLinks } from '../../../scripts/release/links.mjs';

const isPacked = (/** @type {string} */ path) =>
  ['README.md', 'docs/guide/http.md', 'docs/reference/errors.md'].includes(path);
const known = { isPacked, repository: 'https://github.com/owner/evenkeel', version: '1.2.3' };
const unknown = { ...known, repository: '' };

test('links between packed files stay, others point to the tagged commit', () => {
  const text =
    '[a](../reference/errors.md#x) [b](../../examples) [c](../benchmarks.md#d) ![e](../images/top.png) [f](#g) [h](https://x.test)';
  expect(withHoldingLinks(text, 'docs/guide/http.md', known)).toBe(
    '[a](../reference/errors.md#x) [b](https://github.com/owner/evenkeel/tree/v1.2.3/examples) ' +
      '[c](https://github.com/owner/evenkeel/blob/v1.2.3/docs/benchmarks.md#d) ' +
      '![e](https://github.com/owner/evenkeel/raw/v1.2.3/docs/images/top.png) [f](#g) [h](https://x.test)',
  );
});

test('while no repository is known, a link out of the package is replaced by its text', () => {
  expect(
    withHoldingLinks(
      '[the `a` of it](../benchmarks.md) ![a picture](../images/top.png)',
      'docs/guide/http.md',
      unknown,
    ),
  ).toBe('the `a` of it a picture');
});

test('code is left unchanged', () => {
  const text = '`[a](gone.md)`\n\n```md\n[b](gone.md)\n```\n\n[c](docs/guide/http.md)';
  expect(withHoldingLinks(text, 'README.md', unknown)).toBe(text);
});
