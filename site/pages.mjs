/** Which pages the site has, where each comes from, and where a link of a source page leads on the site. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, posix, relative } from 'node:path';

/** Guides by task, in the order of the sidebar. A guide that no group names stands under the last. */
const guideGroups = {
  'Start here': ['index', 'whole-app', 'switch-on', 'frameworks', 'migrating', 'testing-your-app'],
  HTTP: ['http', 'node-http', 'llm'],
  'gRPC and Connect': ['grpc', 'connect'],
  'Databases and caches': ['mysql', 'mysql-orms', 'postgres', 'aurora-rds', 'redis'],
  'Long-lived connections': ['websocket', 'amqp', 'tcp'],
  'Finding pods': ['endpoint-slices', 'rbac', 'headless-dns', 'fleets'],
  'Choosing pods': ['choosing-a-picker', 'outlier-ejection', 'retries', 'overload'],
  'The server side': ['server', 'graceful-rollout'],
  'When something is wrong': ['errors-people-search', 'doctor'],
  'Seeing what it does': ['metrics', 'admin-page', 'tracing'],
  'A protocol of your own': ['adapters'],
};
const OTHER_GUIDES = 'More';

/** How it works: pages of `docs/` itself. */
const insidePages = ['architecture', 'life-of-a-call', 'glossary', 'threat-model'];

/**
 * @typedef {{ source: string, page: string, title: string }} Page a Markdown file of the repository and its page, both with `.md`
 * @typedef {{ text: string, link?: string, items?: readonly SidebarItem[], collapsed?: boolean }} SidebarItem
 */

/** Where a Markdown file of the repository is on the site; undefined for one that has no page. @param {string} source such as `docs/guide/http.md` */
export function pageOf(source) {
  if (source === 'README.md') return 'index.md';
  if (source === 'docs/README.md') return 'guide/index.md';
  if (source.startsWith('docs/')) return source.slice('docs/'.length);
  const example = /^examples\/([^/]+)\/README\.md$/.exec(source);
  if (example) return `examples/${example[1]}.md`;
  return /^[A-Z_]+\.md$/.test(source) ? source.toLowerCase() : undefined;
}

/** Every page that comes from a Markdown file. @param {string} root @returns {Page[]} */
export function pagesOf(root) {
  const sources = [
    ...readdirSync(root).filter((name) => name.endsWith('.md') && name !== 'README.md'),
    ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md'))
      .map((name) => `docs/${name.replaceAll('\\', '/')}`),
    ...readdirSync(join(root, 'examples'))
      .map((name) => `examples/${name}/README.md`)
      .filter((name) => existsSync(join(root, name))),
  ];
  return sources.sort().flatMap((source) => {
    const page = pageOf(source);
    return page === undefined ? [] : [{ source, page, title: titleOf(readFileSync(join(root, source), 'utf8')) }];
  });
}

/** The first heading of a page, without its markup. @param {string} text */
export function titleOf(text) {
  return (/^# (.+)$/m.exec(text)?.[1] ?? '').replace(/[`*]/g, '');
}

/** The sidebar of each part of the site. @param {readonly Page[]} pages @param {readonly { path: string, page: string }[]} entryPoints */
export function sidebarOf(pages, entryPoints) {
  const inFolder = (/** @type {string} */ folder) => pages.filter(({ page }) => dirname(page) === folder);
  const item = (/** @type {Page} */ { page, title }) => ({ text: title, link: linkTo(page) });
  const named = new Set(Object.values(guideGroups).flat());
  const guides = inFolder('guide');
  const ofSlugs = (/** @type {readonly string[]} */ slugs, folder = 'guide') =>
    slugs.flatMap((slug) => pages.filter(({ page }) => page === posix.join(folder, `${slug}.md`)).map(item));
  const others = guides.filter(({ page }) => !named.has(posix.basename(page, '.md'))).map(item);
  const guide = [
    ...Object.entries(guideGroups).map(([text, slugs]) => ({ text, items: ofSlugs(slugs) })),
    ...(others.length > 0 ? [{ text: OTHER_GUIDES, items: others }] : []),
    { text: 'Operating', items: inFolder('operating').map(item) },
    { text: 'Examples', collapsed: true, items: inFolder('examples').map(item) },
  ];
  const reference = [{ text: 'Reference', items: inFolder('reference').map(item) }];
  const api = [
    {
      text: 'API by entry point',
      items: [
        { text: 'Overview', link: '/api/' },
        ...entryPoints.map(({ path, page }) => ({ text: path, link: `/api/${page}` })),
      ],
    },
  ];
  const inside = [
    { text: 'How it works', items: ofSlugs(insidePages, '.') },
    {
      text: 'Benchmarks',
      items: inFolder('.')
        .filter(({ page }) => page.startsWith('benchmarks'))
        .map(item),
    },
    { text: 'Decisions', items: [{ text: 'All decisions', link: '/decision/' }, ...inFolder('decision').map(item)] },
    {
      text: 'Project',
      items: inFolder('.')
        .filter(({ page }) => !page.startsWith('benchmarks') && !insidePages.includes(posix.basename(page, '.md')))
        .map(item),
    },
  ];
  return {
    '/guide/': guide,
    '/operating/': guide,
    '/examples/': guide,
    '/reference/': reference,
    '/api/': api,
    '/': inside,
  };
}

/** The address of a page. @param {string} page such as `guide/http.md` */
export function linkTo(page) {
  return `/${page.replace(/\.md$/, '').replace(/(^|\/)index$/, '$1')}`;
}

/**
 * The text of a page with its links changed from paths in the repository to pages of the site. A link to anything but a page leads to
 * `files/…`, where the site shows it; `showFile` is told its path.
 * @param {string} root @param {Page} page @param {(path: string) => void} showFile
 */
export function withSiteLinks(root, { source, page }, showFile) {
  const text = readFileSync(join(root, source), 'utf8');
  return replaceLinks(text, (target) => {
    if (/^([a-z][a-z0-9+.-]*:|#)/i.test(target)) return target;
    const [path = '', anchor] = target.split('#');
    const there = posix.normalize(posix.join(posix.dirname(source), decodeURI(path))).replace(/\/$/, '');
    const to = targetOf(root, there);
    if (to.startsWith('files/')) showFile(there);
    const link = relative(dirname(page), to).replaceAll('\\', '/');
    return `${link.startsWith('.') ? '' : './'}${link}${anchor === undefined ? '' : `#${anchor}`}`;
  });
}

/** @param {string} root @param {string} path of a file or folder in the repository */
function targetOf(root, path) {
  if (path === 'docs/decision') return 'decision/index.md';
  if (path.startsWith('docs/images/')) return path.slice('docs/'.length);
  if (existsSync(join(root, path, 'README.md'))) return pageOf(`${path}/README.md`) ?? fileOf(path);
  const isFile = statSync(join(root, path), { throwIfNoEntry: false })?.isFile() === true;
  return (isFile && path.endsWith('.md') ? pageOf(path) : undefined) ?? fileOf(path);
}

/** The page that shows a file, or what a folder holds. A hidden file is shown without its dot: many servers hide those too. @param {string} path */
export function fileOf(path) {
  return `files/${path.replaceAll(/(^|\/)\./g, '$1')}.md`;
}

/**
 * The text of a page with tabs where blocks of code with a label follow each other, such as ```` ```js [import] ```` and
 * ```` ```js [require] ````. Elsewhere than on the site they are two blocks. @param {string} text
 */
export function withTabs(text) {
  const labelled = /(?:^```\w+ \[[^\]]+\]\n(?:(?!```).*\n)*```\n+){2,}/gm;
  return text.replace(labelled, (blocks) => `::: code-group\n\n${blocks.trimEnd()}\n\n:::\n\n`);
}

/** Changes the target of each link and image outside of code. @param {string} text @param {(target: string) => string} change */
export function replaceLinks(text, change) {
  const code = /^( *)(```|~~~)[\s\S]*?^\1\2|`[^`\n]*`/gm;
  const marks = /(\]\(\s*)([^)\s]+)((?:\s+"[^"]*")?\s*\))|(^\[[^\]]+\]:\s*)(\S+)/gm;
  const outside = (/** @type {string} */ part) =>
    part.replace(marks, (_whole, open, target, close, define, defined) =>
      target === undefined ? `${define}${change(defined)}` : `${open}${change(target)}${close}`,
    );
  let changed = '';
  let end = 0;
  // The text of a link may have code in it, so only what stands between pieces of code is looked at; a target never has any.
  for (const match of text.matchAll(code)) {
    changed += outside(text.slice(end, match.index)) + match[0];
    end = match.index + match[0].length;
  }
  return changed + outside(text.slice(end));
}
