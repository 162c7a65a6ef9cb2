import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { sectionOf, tableRows, textOf } from '../../support/docs-page.js';

const page = textOf('docs/life-of-a-set.md');
const source = (file: string): URL => new URL(`../../../src/${file}`, import.meta.url);
const files = (heading: string): string[] =>
  tableRows(sectionOf(page, heading)).flatMap(([first = '']) =>
    [...first.matchAll(/`([^`]+\.ts)`/g)].map(([, file = '']) => file),
  );

describe('docs/life-of-a-set.md', () => {
  const all = [...files('From the API server to a set of endpoints'), ...files('From a set to the picker')];

  it('names files that exist, each once', () => {
    expect(all.length).toBeGreaterThan(15);
    expect(new Set(all).size).toBe(all.length);
    for (const file of all) expect(existsSync(source(file)), file).toBe(true);
  });

  it('names three deferrals, and the files with their times agree', () => {
    expect(page.match(/\*\*(First|[Ss]econd|[Tt]hird) deferral\*\*/g)).toHaveLength(3);
    const throttle = readFileSync(source('resolver/kubernetes/slices/published-set.ts'), 'utf8');
    expect(throttle).toContain('PACE_MS = 50;');
    expect(throttle).toContain('LINGER_MS = 250;');
  });
});
