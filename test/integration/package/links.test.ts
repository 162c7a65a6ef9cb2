import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
// @ts-expect-error: a plain script without types
import { anchorsOf, brokenLinks, linksOf } from '../../../scripts/docs-links.mjs';
// @ts-expect-error: a plain script without types
import { packedTexts } from '../../../scripts/release/pack.mjs';

const root = join(import.meta.dirname, '../../..');

describe('the packed package, unpacked in node_modules', () => {
  let folder: string;
  let pages: string[];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'evenkeel-links-'));
    await promisify(execFile)('tar', ['-xzf', inject('tarball'), '-C', folder]);
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    pages = entries.filter(({ name }) => name.endsWith('.md')).map((entry) => join(entry.parentPath, entry.name));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  test('holds the guides and the reference', () => {
    const names = pages.map((page) => relative(join(folder, 'package'), page).replaceAll('\\', '/'));
    expect(names).toEqual(
      expect.arrayContaining([
        'README.md',
        'CHANGELOG.md',
        'docs/README.md',
        'docs/guide/grpc.md',
        'docs/reference/errors.md',
      ]),
    );
  });

  test('every relative link of its pages leads to a file and a heading', () => {
    const broken = pages.flatMap((page) =>
      brokenLinks(page).map((problem: string) => `${relative(folder, page)}: ${problem}`),
    );
    expect(broken).toEqual([]);
  });
});

describe('the packed pages of a project whose address is known', () => {
  const repository = 'https://github.com/owner/evenkeel';
  const texts = packedTexts({ repository, homepage: '', bugs: '', author: '', security: '' }) as Map<string, string>;
  const prefix = new RegExp(`^${repository}/(blob|tree|raw)/v\\d+\\.\\d+\\.\\d+/(.*)$`);
  const outside = [...texts].flatMap(([page, text]) =>
    (linksOf(text) as string[]).filter((link) => link.startsWith(repository)).map((link) => ({ page, link })),
  );

  test('link to the tagged commit for files that are not packed', async () => {
    expect(outside.length).toBeGreaterThan(80);
    const broken: string[] = [];
    for (const { page, link } of outside) {
      const [path = '', anchor] = (prefix.exec(link)?.[2] ?? 'no path').split('#');
      const file = join(root, path);
      const leads = existsSync(file) && (!anchor || anchorsOf(await readFile(file, 'utf8')).has(anchor));
      if (!leads) broken.push(`${page}: ${link}`);
    }
    expect(broken).toEqual([]);
  });

  test('the README has no relative link, since npm shows it beside no other file', () => {
    const links = linksOf(texts.get('README.md') ?? '') as string[];
    expect(links.length).toBeGreaterThan(30);
    expect(links.filter((link) => !/^(https:|#)/.test(link))).toEqual([]);
  });
});
