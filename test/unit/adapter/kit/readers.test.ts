import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const root = fileURLToPath(new URL('../../../../', import.meta.url));
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

/** The names in the braces of every import or export from a module whose address matches. */
function namesFrom(text: string, address: RegExp): string[] {
  const lists = [...text.matchAll(/(?:import|export) (?:type )?\{([^}]*)\} from '([^']*)'/g)];
  const matching = lists.filter(([, , from]) => address.test(from as string)).map(([, names]) => names as string);
  return matching.flatMap((names) => names.split(',').map((name) => name.trim().replace(/^type | as .*/g, '')));
}

const offered = namesFrom(read('src/adapter/kit/index.ts'), /./).filter((name) => name !== '');

const sources = ['src/adapter', 'src/register'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !(folder === 'src/adapter' && file.startsWith('kit')))
    .map((file) => join(folder, file)),
);
const used = new Set(sources.flatMap((file) => namesFrom(read(file), /kit\/index\.js$/)));

it('every name that the kit lists is used by an adapter, or offered to authors of adapters', () => {
  expect(offered.length).toBeGreaterThan(50);
  expect(offered.filter((name) => !used.has(name))).toEqual([]);
});

it('every name of evenkeel/adapter is in the guide to writing an adapter', () => {
  const names = namesFrom(read('src/adapter/index.ts'), /./).filter((name) => name !== '');
  const guide = read('docs/guide/adapters.md');
  expect(names.length).toBeGreaterThan(20);
  expect(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(guide))).toEqual([]);
});
