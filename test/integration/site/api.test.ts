import { describe, expect, it } from 'vitest';
// @ts-expect-error A script without types.
import { readApi, undescribed } from '../../../site/api.mjs';

const root = new URL('../../../', import.meta.url).pathname;

interface Name {
  readonly name: string;
  readonly members: readonly { readonly name: string }[];
}

interface EntryPoint {
  readonly path: string;
  readonly names: readonly Name[];
}

const entries = readApi(root) as readonly EntryPoint[];

describe('the API reference', () => {
  it('has the names of every entry point', () => {
    const counts = new Map(entries.map(({ path, names }) => [path, names.length]));
    expect(counts.get('evenkeel')).toBeGreaterThan(100);
    expect([...counts].filter(([path, count]) => count === 0 && path !== 'evenkeel/register')).toEqual([]);
    const names = entries.find(({ path }) => path === 'evenkeel/undici')?.names.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['createFetch', 'createDispatcher', 'ServiceDispatcher']));
  });

  it('has a description of every name, and of its members', () => {
    expect(undescribed(entries)).toEqual([]);
  });
});
