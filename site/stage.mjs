/** Writes the source of the site to a folder: the Markdown of the repository with links to pages, the API reference, and what the site has of its own. */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, extname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { readApi } from './api.mjs';
import { apiPages } from './api-pages.mjs';
import { fileOf, pagesOf, withSiteLinks, withTabs } from './pages.mjs';

/** @param {string} root of the repository, which is built @param {string} folder @returns {Promise<ReadonlyMap<string, string>>} the text of each page */
export async function stage(root, folder) {
  rmSync(folder, { recursive: true, force: true });
  const pages = pagesOf(root);
  const shown = new Set();
  const texts = new Map();
  for (const page of pages)
    texts.set(
      page.page,
      withSiteLinks(root, page, (path) => shown.add(path)),
    );
  texts.set('decision/index.md', decisions(pages));
  for (const [page, text] of await apiReference(root)) texts.set(page, text);
  texts.set(
    'index.md',
    withSiteLinks(root, { source: 'site/index.md', page: 'index.md', title: '' }, (path) => shown.add(path)),
  );
  for (const path of shown) texts.set(fileOf(path), filePage(root, path));
  for (const [page, text] of texts) {
    mkdirSync(dirname(join(folder, page)), { recursive: true });
    writeFileSync(join(folder, page), withTabs(text));
  }
  cpSync(join(root, 'docs', 'images'), join(folder, 'images'), { recursive: true });
  cpSync(join(root, 'site', 'public'), join(folder, 'public'), { recursive: true });
  return texts;
}

/** @param {string} root */
async function apiReference(root) {
  const { exports: targets } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const entries = readApi(root);
  const values = new Map();
  for (const { path, names } of entries) {
    const target = targets[`.${path.slice('evenkeel'.length)}`].default;
    // `evenkeel/register` exports nothing: importing it would balance this very program.
    if (names.length > 0) values.set(path, await import(pathToFileURL(join(root, target)).href));
  }
  return apiPages(entries, values);
}

/** @param {readonly import('./pages.mjs').Page[]} pages */
function decisions(pages) {
  const rows = pages
    .filter(({ page }) => page.startsWith('decision/'))
    .map(({ page, title }) => `- [${title}](./${relative('decision', page)})`);
  return [
    '# Decisions',
    'Why things are as they are: one page each, with the alternatives and what would change the decision.',
    rows.join('\n'),
    '',
  ].join('\n\n');
}

/** A page that shows a file, or the files of a folder. @param {string} root @param {string} path */
function filePage(root, path) {
  // Found by those who follow a link, not by those who search.
  const head = `---\nsearch: false\n---\n\n# \`${path}\``;
  const there = join(root, path);
  if (!existsSync(there)) throw new Error(`A page links to ${path}, which is not there`);
  if (statSync(there).isDirectory()) {
    const names = readdirSync(there, { recursive: true, encoding: 'utf8' }).filter((name) =>
      statSync(join(there, name)).isFile(),
    );
    return `${head}\n\nA folder of the repository:\n\n${names
      .sort()
      .map((name) => `- \`${name}\``)
      .join('\n')}\n`;
  }
  const language =
    { '.mjs': 'js', '.cjs': 'js', '.yml': 'yaml', '.npmrc': 'ini' }[extname(path)] ?? extname(path).slice(1);
  return `${head}\n\nA file of the repository.\n\n\`\`\`\`${language}\n${readFileSync(there, 'utf8').trimEnd()}\n\`\`\`\`\n`;
}
