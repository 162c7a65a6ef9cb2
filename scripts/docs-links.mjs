/** Checks that every relative link in the Markdown files leads to a file, and every `#anchor` to a heading. Asks no other host. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The anchor of a heading that has none before it with the same text, made the way GitHub makes it. @param {string} heading without markup */
export function slugOf(heading) {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M}\s_-]/gu, '')
    .replace(/\s/g, '-');
}

/** Anchors of a Markdown text. */
export function anchorsOf(text) {
  const anchors = new Set();
  for (const [, heading] of withoutCode(text).matchAll(/^#{1,6}\s+(.+?)\s*#*$/gm)) {
    const plain = heading.replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/[`*]/g, '');
    const slug = slugOf(plain);
    let anchor = slug;
    for (let n = 1; anchors.has(anchor); n++) anchor = `${slug}-${n}`;
    anchors.add(anchor);
  }
  for (const [, id] of text.matchAll(/<a\s+(?:id|name)="([^"]+)"/g)) anchors.add(id);
  return anchors;
}

/** Targets of the inline links, images and reference definitions of a Markdown text. */
export function linksOf(text) {
  const plain = withoutCode(text).replace(/`[^`\n]*`/g, '');
  const inline = [...plain.matchAll(/\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)/g)];
  const definitions = [...plain.matchAll(/^\[[^\]]+\]:\s*<?(\S+?)>?(?:\s|$)/gm)];
  return [...inline, ...definitions].map(([, target]) => target);
}

function withoutCode(text) {
  return text.replace(/^(```|~~~)[\s\S]*?^\1/gm, '');
}

/** What is wrong with the links of one file, as lines of text. */
export function brokenLinks(file) {
  const broken = [];
  for (const target of linksOf(readFileSync(file, 'utf8'))) {
    if (/^[a-z][a-z0-9+.-]*:/i.test(target)) continue;
    const [path, anchor] = target.split('#');
    const there = path === '' ? file : resolve(dirname(file), decodeURI(path));
    if (!existsSync(there)) broken.push(`${target} leads nowhere`);
    else if (anchor && statSync(there).isFile() && there.endsWith('.md')) {
      if (!anchorsOf(readFileSync(there, 'utf8')).has(anchor)) broken.push(`${target} has no such heading`);
    }
  }
  return broken;
}

/** Markdown files under a folder, without what is installed, built or hidden. */
function markdownUnder(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isFile()) return entry.name.endsWith('.md') ? [path] : [];
    const left = entry.name.startsWith('.') || ['node_modules', 'dist', 'build'].includes(entry.name);
    return entry.isDirectory() && !left ? markdownUnder(path) : [];
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = dirname(dirname(fileURLToPath(import.meta.url)));
  const files = markdownUnder(root);
  const problems = files.flatMap((file) => brokenLinks(file).map((problem) => `${relative(root, file)}: ${problem}`));
  for (const problem of problems) console.error(problem);
  console.log(`${files.length} Markdown files, ${problems.length} broken links`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
