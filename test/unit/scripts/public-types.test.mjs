import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { keepPublicTypes } from '../../../scripts/public-types.mjs';

/** @type {string} */
let folder;
afterEach(() => rmSync(folder, { recursive: true }));

/**
 * What is left of these files, whose entry point is `index`; undefined if nothing is.
 *
 * @param {Record<string, string>} files
 */
function cut(files) {
  folder = mkdtempSync(join(tmpdir(), 'evenkeel-types-'));
  const path = (/** @type {string} */ name) => join(folder, `${name}.d.ts`);
  for (const [name, text] of Object.entries(files)) writeFileSync(path(name), text);
  keepPublicTypes([path('index')], Object.keys(files).map(path));
  return (/** @type {string} */ name) => (existsSync(path(name)) ? readFileSync(path(name), 'utf8').trim() : undefined);
}

test('declarations, imports and files that no entry point reaches are left out, with their comments', () => {
  const left = cut({
    index: `export { open } from './open.js';`,
    open: `import type { Hidden } from './hidden.js';
import { type Options, type Unused } from './options.js';
/** Opens it. */
export declare function open(options: Options): void;
/** Closes it. */
export declare function close(hidden: Hidden): Unused;`,
    options: `/** What to open. */
export interface Options {
    readonly Unused?: string | undefined;
}
export interface Unused {
}`,
    hidden: 'export interface Hidden {\n}',
  });
  expect(left('open')).toBe(`import { type Options } from './options.js';
/** Opens it. */
export declare function open(options: Options): void;`);
  expect(left('options')).toBe(`/** What to open. */
export interface Options {
    readonly Unused?: string | undefined;
}`);
  expect(left('hidden')).toBeUndefined();
});

test('declarations used under another name, through a whole module, in a cycle or by an overload stay', () => {
  const left = cut({
    index: `import * as parts from './parts.js';
export type { A as Renamed } from './a.js';
export * from './more.js';
export declare const all: typeof parts;
export type Later = import('./later.js').Later;`,
    parts: 'export interface Part {\n}',
    a: `import type { B } from './b.js';\nexport interface A {\n    b: B;\n}`,
    b: `import type { A } from './a.js';\nexport interface B {\n    a?: A;\n}`,
    more: `import type { One, Two } from './two.js';
export declare function more(one: One): void;
export declare function more(two: Two): void;`,
    two: `export interface One {\n}\nexport type Two = Local;\ninterface Local {\n}\nexport {};`,
    later: 'export interface Later {\n}',
  });
  for (const name of ['index', 'parts', 'a', 'b', 'more', 'two', 'later']) {
    expect(left(name), name).toBe(readFileSync(join(folder, `${name}.d.ts`), 'utf8').trim());
  }
  expect(left('two')).toContain('interface Local');
  expect(left('b')).toContain('A');
  expect(left('more')).toMatch(/one: One[\s\S]*two: Two/);
});
