import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../../..');
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const page = readFileSync(join(root, 'docs/decision/dependencies.md'), 'utf8');
/** Names in the first cell of every row under a heading. @param {string} heading */
const listed = (heading) => {
  const section = page.split('\n## ').find((text) => text.startsWith(heading)) ?? '';
  const cells = [...section.matchAll(/^\| (`[^|]+) \|/gm)].map(([, cell]) => String(cell));
  return cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => String(name))).sort();
};

test('there is no runtime dependency', () => {
  expect(manifest.dependencies ?? {}).toEqual({});
});

test('every peer is optional and has its line in docs/decision/dependencies.md', () => {
  const peers = Object.keys(manifest.peerDependencies).sort();
  expect(listed('Peers')).toEqual(peers);
  expect(Object.keys(manifest.peerDependenciesMeta).sort()).toEqual(peers);
  for (const peer of peers) expect(manifest.peerDependenciesMeta[peer]).toEqual({ optional: true });
});

test('an app may have any version of a peer: npm refuses none', () => {
  expect(new Set(Object.values(manifest.peerDependencies))).toEqual(new Set(['*']));
});

test('every development dependency has its line in docs/decision/dependencies.md, and every line its dependency', () => {
  expect(listed('For development')).toEqual(Object.keys(manifest.devDependencies).sort());
});
