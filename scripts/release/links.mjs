/** Makes the links of the packed Markdown files hold, in node_modules and on the page that npm makes of the README. */
import { statSync } from 'node:fs';
import { join, posix } from 'node:path';

const root = join(import.meta.dirname, '../..');

/** A code span, or a link or image with its text and target. What is inside of a code span is not a link. */
const spanOrLink = /`[^`\n]*`|(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(\s*([^)\s]+)\s*\)/g;

/**
 * The text of one packed file. Links to other packed files stay relative. Links to anything else lead to the tagged commit in the
 * repository; as long as no repository is known, only their text stays.
 *
 * The README's links all lead to the repository: npm shows it on a page of its own, beside no other file.
 *
 * @param {string} text
 * @param {string} file its path in the repository, such as `docs/guide/http.md`
 * @param {{ isPacked: (path: string) => boolean, repository: string, version: string }} package_
 */
export function withHoldingLinks(text, file, { isPacked, repository, version }) {
  const onNpm = file === 'README.md' && repository !== '';
  return outsideFences(text, (part) =>
    part.replace(spanOrLink, (whole, image, label, target) => {
      if (target === undefined || /^([a-z][a-z0-9+.-]*:|#)/i.test(target)) return whole;
      const [path = '', anchor] = target.split('#');
      const there = posix.join(posix.dirname(file), decodeURI(path)).replace(/\/$/, '');
      if (isPacked(there) && !onNpm) return whole;
      if (repository === '') return label;
      const kind = image === '!' ? 'raw' : statSync(join(root, there)).isDirectory() ? 'tree' : 'blob';
      return `${image}[${label}](${repository}/${kind}/v${version}/${there}${anchor === undefined ? '' : `#${anchor}`})`;
    }),
  );
}

/** Changes a Markdown text except for its fenced blocks of code. @param {string} text @param {(part: string) => string} change */
function outsideFences(text, change) {
  return text
    .split(/^((?:```|~~~)[\s\S]*?^(?:```|~~~)[^\S\n]*$)/m)
    .map((part, at) => (at % 2 === 1 ? part : change(part)))
    .join('');
}
