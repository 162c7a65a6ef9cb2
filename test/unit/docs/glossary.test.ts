import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { sectionOf, tableRows, textOf } from '../../support/docs-page.js';

const words = sectionOf(textOf('docs/glossary.md'), 'Words in the code');
/** What follows the table: first the names of variables and members, then those of types. */
const [banned = '', bannedTypes = ''] = words
  .slice(words.indexOf('A test keeps other names out'))
  .split('names of types without a prefix');
const namesIn = (text: string): string[] => [...text.matchAll(/`(\w+)`/g)].map(([, name]) => name as string);

/** Code without comments and without the text of strings. Line numbers stay. */
function withoutText(source: string): string {
  const blank = (text: string): string => text.replace(/[^\n]/g, ' ');
  return source
    .replace(/\/\*[\s\S]*?\*\//g, blank)
    .replace(/(?<=^|\s)\/\/ .*$/gm, blank)
    .replace(/`(?:\\.|[^`\\])*`|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"/g, blank);
}

/** The code of every file of src. */
const sources = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((file) => /\.c?[jt]s$/.test(file))
  .map((file) => ({ file, code: withoutText(textOf(`src/${file}`)) }));

/** `file:line` of every line of src that matches. */
function linesWith(pattern: RegExp): string[] {
  return sources.flatMap(({ file, code }) =>
    code.split('\n').flatMap((line, index) => (pattern.test(line) ? [`${file}:${index + 1}: ${line.trim()}`] : [])),
  );
}

describe('docs/glossary.md, words in the code', () => {
  it('lists names that occur in the source', () => {
    const listed = tableRows(words).flatMap(([cell = '']) => namesIn(cell));
    expect(listed.length).toBeGreaterThan(15);
    for (const name of listed) {
      const pattern = new RegExp(`(?<![A-Za-z])${name}|${name[0]?.toUpperCase()}${name.slice(1)}`);
      expect(
        sources.some(({ code }) => pattern.test(code)),
        name,
      ).toBe(true);
    }
  });

  it('bans variables and members whose names had several meanings', () => {
    expect(namesIn(banned).length).toBeGreaterThan(5);
    expect(linesWith(new RegExp(`(?<![\\w$-])#?(?:${namesIn(banned).join('|')})(?![\\w$-])`))).toEqual([]);
  });

  it('bans types that do not say which part of the library they belong to', () => {
    expect(namesIn(bannedTypes).length).toBeGreaterThan(5);
    expect(linesWith(new RegExp(`\\b(?:class|interface|type) (?:${namesIn(bannedTypes).join('|')})\\b`))).toEqual([]);
  });
});
