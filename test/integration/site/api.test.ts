import { describe, expect, it } from 'vitest';
// @ts-expect-error A script without types.
import { readApi, undescribed } from '../../../site/api.mjs';

const root = new URL('../../../', import.meta.url).pathname;

interface Member {
  readonly name: string;
  readonly optional: boolean;
  readonly doc?: { readonly tags: readonly { readonly tag: string }[] };
}

interface Name {
  readonly name: string;
  readonly members: readonly Member[];
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

  it('says the default of every option', () => {
    const missing = entries
      .filter(({ path }) => !path.startsWith('evenkeel/testing'))
      .flatMap(({ names }) => names.filter(({ name }) => /(Options|Settings)$/.test(name)))
      .flatMap(({ name, members }) =>
        members
          .filter(({ optional, doc }) => optional && !doc?.tags.some(({ tag }) => tag === 'defaultValue'))
          .map((member) => `${name}.${member.name}`),
      );
    expect(missing).toEqual([]);
  });
});
