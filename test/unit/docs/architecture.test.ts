import { existsSync, readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { sectionOf, tableRows, textOf } from '../../support/docs-page.js';

const at = (path: string): URL => new URL(`../../../${path}`, import.meta.url);
const page = textOf('docs/architecture.md');
/** The rows of a section's table whose first cell is code. */
const rows = (heading: string): string[][] => tableRows(sectionOf(page, heading));
const codes = (text: string): string[] => [...text.matchAll(/`([^`]+)`/g)].map(([, code]) => code as string);

describe('docs/architecture.md', () => {
  it('has every room of src, and the file to begin with is there', () => {
    const rooms = rows('The rooms').map(([room = '', , first = '']) => ({ room: codes(room)[0] ?? '', first }));
    const listed = rooms.map(({ room }) => room.replace(/^src\/|\/$/g, ''));
    const present = readdirSync(at('src'), { withFileTypes: true }).map(({ name }) => name);
    expect(listed.sort()).toEqual(present.filter((name) => name !== 'index.ts').sort());
    for (const { room, first } of rooms) {
      for (const file of codes(first)) expect(existsSync(at(`${room}${file}`)), `${room}${file}`).toBe(true);
    }
  });

  it('names files that are there', () => {
    const ways = rows('The way through the larger rooms');
    expect(ways.length).toBeGreaterThan(5);
    for (const [room = '', files = ''] of ways) {
      const [folder] = codes(room);
      for (const file of codes(files).filter((code) => code.endsWith('.ts'))) {
        expect(existsSync(at(`${folder}${file}`)), `${folder}${file}`).toBe(true);
      }
    }
  });

  it('names folders that are there', () => {
    const around = rows('Around the source');
    expect(around.length).toBeGreaterThan(5);
    for (const code of around.flatMap((cells) => codes(cells.join(' '))).filter((text) => text.startsWith('test/'))) {
      expect(existsSync(at(code)), code).toBe(true);
    }
    for (const [folder = ''] of around) expect(existsSync(at(codes(folder)[0] ?? '-')), folder).toBe(true);
  });
});
