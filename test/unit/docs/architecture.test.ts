import { existsSync, readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { sectionOf, tableRows, textOf } from '../../support/docs-page.js';

const at = (path: string): URL => new URL(`../../../${path}`, import.meta.url);
const page = textOf('docs/architecture.md');
/** The rows of a section's table whose first cell is code. */
const rows = (heading: string): string[][] => tableRows(sectionOf(page, heading));
const codes = (text: string): string[] => [...text.matchAll(/`([^`]+)`/g)].map(([, code]) => code as string);

describe('docs/architecture.md', () => {
  it('lists every module of src, with a first file that exists', () => {
    const modules = rows('The modules').map(([module = '', , first = '']) => ({
      module: codes(module)[0] ?? '',
      first,
    }));
    const listed = modules.map(({ module }) => module.replace(/^src\/|\/$/g, ''));
    const present = readdirSync(at('src'), { withFileTypes: true }).map(({ name }) => name);
    expect(listed.sort()).toEqual(present.filter((name) => name !== 'index.ts').sort());
    for (const { module, first } of modules) {
      for (const file of codes(first)) expect(existsSync(at(`${module}${file}`)), `${module}${file}`).toBe(true);
    }
  });

  it('names folders that exist', () => {
    const around = rows('Around the source');
    expect(around.length).toBeGreaterThan(5);
    for (const code of around.flatMap((cells) => codes(cells.join(' '))).filter((text) => text.startsWith('test/'))) {
      expect(existsSync(at(code)), code).toBe(true);
    }
    for (const [folder = ''] of around) expect(existsSync(at(codes(folder)[0] ?? '-')), folder).toBe(true);
  });
});
