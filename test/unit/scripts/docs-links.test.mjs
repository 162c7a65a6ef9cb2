import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { anchorsOf, brokenLinks, linksOf } from '../../../scripts/docs-links.mjs';

test('anchors are formed as on GitHub', () => {
  const text = '# The `pick` path\n## Why not `a/b`?\n### Über uns\n## Twice\n## Twice\n## A [link](x.md) in it\n';
  expect([...anchorsOf(text)]).toEqual(['the-pick-path', 'why-not-ab', 'über-uns', 'twice', 'twice-1', 'a-link-in-it']);
});

test('code contains neither headings nor links', () => {
  const text =
    '```sh\n# not a heading\n[x](nowhere.md)\n```\n`[y](nowhere.md)` but [z](there.md "title")\n\n[ref]: ref.md\n';
  expect([...anchorsOf(text)]).toEqual([]);
  expect(linksOf(text)).toEqual(['there.md', 'ref.md']);
});

test('missing files and headings are found, and no request goes to other hosts', () => {
  const folder = mkdtempSync(join(tmpdir(), 'evenkeel-docs-'));
  try {
    writeFileSync(join(folder, 'other.md'), '# There\n');
    const file = join(folder, 'page.md');
    writeFileSync(
      file,
      '# Here\n[a](other.md#there) [b](#here) [c](https://example.org/x) [d](other.md#gone) [e](gone.md) [f](#gone)\n',
    );
    expect(brokenLinks(file)).toEqual([
      'other.md#gone has no such heading',
      'gone.md leads nowhere',
      '#gone has no such heading',
    ]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
