/** That no table of ours which is indexed by text from outside is a plain object: that would also know `constructor` and `__proto__`. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '../../..');
/** A constant object with entries whose type says that any text may index it; in the examples, by JSDoc. */
const TABLES = [
  /const (\w+): (?:Readonly<)?Record<string, .*> = (?:Object\.freeze\()?\{(?!\})/g,
  /@type \{(?:Readonly<)?Record<string, .*\*\/\s*(?:export )?const (\w+) = \{(?!\})/g,
];

/** The names of tables that `source` indexes without asking whether the key is the table's own. */
const offences = (source) =>
  TABLES.flatMap((table) => [...source.matchAll(table)])
    .map(([, name]) => name)
    .filter(
      (name) => new RegExp(`\\b${name}\\[[^\\]]+\\](?! = )`).test(source) && !source.includes(`Object.hasOwn(${name},`),
    );

it('no file indexes a plain object by text from outside', () => {
  const files = ['src', 'examples'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => /\.(ts|js)$/.test(file) && !file.includes('node_modules'))
      .map((file) => join(folder, file)),
  );
  expect(files.length).toBeGreaterThan(400);
  const all = files.flatMap((file) =>
    offences(readFileSync(join(root, file), 'utf8')).map((name) => `${file}: ${name}`),
  );
  expect(all).toEqual([]);
});

it('a plain object is found, while maps and checked objects are accepted', () => {
  const table = `const texts: Readonly<Record<string, string>> = {\n  a: 'b',\n};\n`;
  expect(offences(`${table}texts[name]`)).toEqual(['texts']);
  expect(offences(`${table}Object.hasOwn(texts, name) ? texts[name] : undefined`)).toEqual([]);
  expect(offences(`${table}Object.entries(texts)`)).toEqual([]);
  expect(offences(`/** @type {Record<string, string>} */\nconst texts = { a: 'b' };\ntexts[name]`)).toEqual(['texts']);
});
