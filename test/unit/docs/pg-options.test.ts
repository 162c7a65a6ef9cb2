import { afterEach, describe, expect, it } from 'vitest';
import { createPool, type PgPool } from '../../../src/adapter/pg/index.js';
import { pgDefaults, pgOptionNames } from '../../../src/adapter/pg/options.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';
import { optionRows, sectionOf, textOf } from '../../support/docs-page.js';

const page = textOf('docs/reference/options-postgres.md');
const own = optionRows(sectionOf(page, "evenkeel's own"));
const different = optionRows(sectionOf(page, "pg's, with another meaning"));
const unchanged = [...(sectionOf(page, "pg's, unchanged").split(' and the environment')[0] ?? '').matchAll(/`(\w+)`/g)];
const refused = ['limit', 'stream'];

const pools: PgPool[] = [];
const open = (options: object): void => {
  pools.push(createPool({ resolver: new FakeResolver(), ...options }));
};
afterEach(async () => {
  for (const pool of pools.splice(0)) await pool.end();
});

describe('docs/reference/options-postgres.md', () => {
  it('has every option once, and no other', () => {
    const names = [...own, ...different].map(({ name }) => name).filter((name) => !refused.includes(name));
    expect([...names, ...unchanged.map(([, name]) => name)].sort()).toEqual([...pgOptionNames].sort());
    for (const name of refused) expect(() => open({ [name]: () => {} })).toThrow(name);
  });

  it('has the defaults of the source', () => {
    for (const [name, value] of Object.entries(pgDefaults)) {
      expect([...own, ...different].find((row) => row.name === name)?.byDefault, name).toBe(String(value));
    }
  });

  it.each([...own, ...different].filter(({ range }) => range !== ''))('$name takes $range', ({ name, range }) => {
    const takes = (value: unknown): boolean => {
      try {
        open({ [name]: value });
        return true;
      } catch {
        return false;
      }
    };
    const [min, max] = (range.match(/[\d.]+/g) ?? []).map(Number) as [number, number];
    expect(takes(min)).toBe(true);
    // 0 means the default.
    if (name !== 'max') expect(takes(min - 0.01)).toBe(false);
    expect(takes(-1)).toBe(false);
    expect(takes(max)).toBe(true);
    expect(takes(max + 1)).toBe(false);
    expect(takes(Number.POSITIVE_INFINITY)).toBe(range.includes('Infinity'));
    expect(takes(min + 0.5)).toBe(!range.includes('whole'));
  });
});
