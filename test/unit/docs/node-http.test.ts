import { describe, expect, it } from 'vitest';
import { createAgent } from '../../../src/adapter/node-http/index.js';
import { staticEndpoints } from '../../../src/resolver/static.js';
import { optionRows, sectionOf, textOf } from '../../support/docs-page.js';

describe('docs/reference/options-http.md, createAgent', () => {
  const table = optionRows(sectionOf(textOf('docs/reference/options-http.md'), '`createAgent`'));

  /** Options an interface declares, with the default its comments name. */
  const declared = (file: string, type: string): [string, string | undefined][] => {
    const [, body = ''] =
      new RegExp(`interface ${type}[^{]*\\{([\\s\\S]*?)\\n\\}`).exec(textOf(`src/${file}.ts`)) ?? [];
    return [...body.matchAll(/\/\*\*([\s\S]*?)\*\/\s*readonly (\w+)\?:/g)].map(([, comment, name]) => [
      name as string,
      /@defaultValue (\d+)/.exec(comment as string)?.[1],
    ]);
  };
  const options = [
    ...declared('adapter/node-http/transport', 'NodeHttpConnectionOptions'),
    ...declared('adapter/node-http/agent', 'AgentOptions'),
  ];

  it('has every option, in the order of the source, with its default', () => {
    expect(options.length).toBeGreaterThan(5);
    expect(table.map(({ name }) => name)).toEqual(options.map(([name]) => name));
    for (const [name, value] of options) {
      if (value !== undefined) expect(table.find((row) => row.name === name)?.byDefault, name).toBe(value);
    }
  });

  it.each(table.filter(({ range }) => range !== ''))('$name takes $range', ({ name, range }) => {
    const resolver = staticEndpoints([{ address: '127.0.0.1', port: 1 }]);
    const takes = (value: number): boolean => {
      try {
        createAgent('http://orders.shop', { resolver, [name]: value }).destroy();
        return true;
      } catch {
        return false;
      }
    };
    const [min, max] = (/\d+/g[Symbol.match](range) ?? []).map(Number) as [number, number];
    const isWhole = range.endsWith('whole');
    expect([min - 1, min, max, max + 1, min + 0.5].map(takes)).toEqual([false, true, true, false, !isWhole]);
  });
});
