import { existsSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
// @ts-expect-error A script without types.
import { readApi } from '../../../site/api.mjs';
// @ts-expect-error A script without types.
import { fileOf, linkTo, pagesOf, replaceLinks, sidebarOf, withSiteLinks, withTabs } from '../../../site/pages.mjs';

interface SidebarItem {
  readonly link?: string;
  readonly items?: readonly SidebarItem[];
}

const root = fileURLToPath(new URL('../../..', import.meta.url));
const pages = pagesOf(root) as readonly { source: string; page: string; title: string }[];
const entryPoints = readApi(root) as readonly { path: string; page: string }[];

function linksIn(items: readonly SidebarItem[]): string[] {
  return items.flatMap(({ link, items: inner = [] }) => [...(link === undefined ? [] : [link]), ...linksIn(inner)]);
}

describe('the pages of the site', () => {
  it('all have a title and an address of their own', () => {
    expect(pages.filter(({ title }) => title === '')).toEqual([]);
    expect(new Set(pages.map(({ page }) => page)).size).toBe(pages.length);
    expect(pages.length).toBeGreaterThan(100);
  });

  it('are each in the sidebar once, as is every entry point of the package', () => {
    const sidebar = new Set(Object.values(sidebarOf(pages, entryPoints) as Record<string, SidebarItem[]>));
    const links = [...sidebar].flatMap(linksIn);
    const wanted = [...pages.map(({ page }) => linkTo(page)), ...entryPoints.map(({ page }) => `/api/${page}`)];
    expect(links.filter((link, index) => links.indexOf(link) !== index)).toEqual([]);
    expect(wanted.filter((link) => !links.includes(link))).toEqual([]);
  });

  it('link to pages of the site, or to files that it shows', () => {
    const known = new Set(pages.map(({ page }) => page));
    for (const generated of ['index.md', 'decision/index.md', ...entryPoints.map(({ page }) => `api/${page}.md`)]) {
      known.add(generated);
    }
    const front = { source: 'site/index.md', page: 'index.md', title: '' };
    for (const page of [...pages, front]) {
      const shown: string[] = [];
      const text = withSiteLinks(root, page, (path: string) => shown.push(path)) as string;
      for (const path of shown) expect(existsSync(join(root, path)), `${page.source}: ${path}`).toBe(true);
      replaceLinks(text, (target: string) => {
        const [path = ''] = target.split('#');
        if (path === '' || /^[a-z][a-z0-9+.-]*:/i.test(target)) return target;
        const there = posix.join(posix.dirname(page.page), path);
        const isThere = known.has(there) || shown.map(fileOf).includes(there) || existsSync(join(root, 'docs', there));
        expect(isThere, `${page.source}: ${target}`).toBe(true);
        return target;
      });
    }
  });

  it('have a text for every picture', () => {
    for (const page of [...pages, { source: 'site/index.md', page: 'index.md', title: '' }]) {
      const text = withSiteLinks(root, page, () => {}) as string;
      expect(text.match(/!\[\s*\]\(/g), page.source).toBeNull();
    }
  });
});

describe('links of a page', () => {
  it('are rewritten in text and definitions, and left alone in code', () => {
    const text = 'see [`a`](x.md "t") and `[b](y.md)`\n\n```md\n[c](z.md)\n```\n\n[d]: w.md\n';
    expect(replaceLinks(text, (target: string) => `to/${target}`)).toBe(
      'see [`a`](to/x.md "t") and `[b](y.md)`\n\n```md\n[c](z.md)\n```\n\n[d]: to/w.md\n',
    );
  });
});

describe('code blocks with a label', () => {
  const block = (info: string): string => `\`\`\`${info}\n${info}\n\`\`\`\n`;

  it('become tabs where they follow each other', () => {
    const tabs = `${block('js [import]')}\n${block('js [require]')}`;
    expect(withTabs(`a\n\n${tabs}\nb\n`)).toBe(`a\n\n::: code-group\n\n${tabs}\n:::\n\nb\n`);
  });

  it('stay blocks where text is between them, as do blocks without a label', () => {
    const text = `${block('js [import]')}\nor\n\n${block('js [require]')}\n${block('js')}\n${block('sh')}`;
    expect(withTabs(text)).toBe(text);
  });
});
