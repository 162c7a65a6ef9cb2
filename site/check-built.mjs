/** What is wrong with a built site: links and images that lead nowhere, images without a text, requests to other hosts. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join, posix } from 'node:path';

const attribute = (/** @type {string} */ tag, /** @type {string} */ name) =>
  new RegExp(`\\s${name}(?:="([^"]*)")?(?=[\\s>/])`).exec(tag)?.slice(0, 2);

/** @param {string} folder of the built site @param {string} base what its addresses begin with */
export function checkBuilt(folder, base = '/') {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => name.replaceAll('\\', '/'))
    .filter((name) => statSync(join(folder, name)).isFile());
  const pages = files.filter((name) => name.endsWith('.html'));
  const texts = new Map(pages.map((page) => [page, readFileSync(join(folder, page), 'utf8')]));
  const anchors = new Map(
    [...texts].map(([page, html]) => [
      page,
      new Set([...html.matchAll(/\sid="([^"]+)"/g)].map(([, id = '']) => decode(id))),
    ]),
  );
  const problems = [];
  let links = 0;
  let images = 0;

  /** @param {string} page @param {string} address */
  const problemOf = (page, address) => {
    const [path = '', anchor] = decode(address).split('#');
    let there =
      path === '' ? page : path.startsWith(base) ? path.slice(base.length) : posix.join(posix.dirname(page), path);
    there = decodeURI(there.split('?')[0] ?? '');
    if (there === '' || there.endsWith('/')) there += 'index.html';
    if (!existsSync(join(folder, there)) && existsSync(join(folder, `${there}.html`))) there += '.html';
    if (!existsSync(join(folder, there))) return 'leads nowhere';
    if (anchor && anchors.get(there)?.has(decodeURIComponent(anchor)) === false) return 'has no such heading';
    return undefined;
  };

  for (const [page, html] of texts) {
    for (const [tag, name = ''] of html.matchAll(
      /<(a|img|link|script|source|iframe|video|audio|object|embed)\b[^>]*>/g,
    )) {
      const [, address] = attribute(tag, name === 'a' || name === 'link' ? 'href' : 'src') ?? [];
      if (name === 'a') links += 1;
      if (name === 'img') {
        images += 1;
        const [, text] = attribute(tag, 'alt') ?? [];
        // Decoration says so by an empty text, which is written `alt` or `alt=""`.
        if (attribute(tag, 'alt') === undefined || (text === '' && !tag.includes('VPImage')))
          problems.push(`${page}: ${tag} has no text`);
      }
      if (address === undefined || address === '' || address.startsWith('data:')) continue;
      if (/^([a-z][a-z0-9+.-]*:|\/\/)/i.test(address)) {
        // A reader may follow a link to another host; a page may load nothing from one.
        if (name !== 'a') problems.push(`${page}: loads ${address}`);
        continue;
      }
      const problem = problemOf(page, address);
      if (problem) problems.push(`${page}: ${address} ${problem}`);
    }
  }
  for (const style of files.filter((name) => name.endsWith('.css'))) {
    const text = readFileSync(join(folder, style), 'utf8');
    for (const [, address] of text.matchAll(/(?:url\(|@import\s+)["']?((?:https?:)?\/\/[^"')]+)/g))
      problems.push(`${style}: loads ${address}`);
  }
  const bytes = files.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
  return { pages: pages.length, links, images, bytes, problems: [...new Set(problems)] };
}

/** @param {string} text of an attribute */
function decode(text) {
  return text
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');
}
