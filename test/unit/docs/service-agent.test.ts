import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createServiceAgent, serviceAgentDefaults } from '../../../src/adapter/undici/index.js';
import { serviceInterceptorOptionNames } from '../../../src/adapter/undici/service-options.js';

describe('docs/reference/options.md, createServiceAgent', () => {
  const page = readFileSync(new URL('../../../docs/reference/options.md', import.meta.url), 'utf8');
  const section = page.split(/^## `createServiceAgent`/m)[1]?.split(/^## /m)[0] ?? '';
  const table = section
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) => {
      const [, name = '', byDefault = '', range = ''] = line.split('|').map((cell) => cell.trim());
      return { name: name.replaceAll('`', ''), byDefault, range };
    });

  it('has every option', () => {
    expect(table.map(({ name }) => name).sort()).toEqual([...serviceInterceptorOptionNames, 'otherwise'].sort());
  });

  it('has the defaults of the source', () => {
    for (const [name, value] of Object.entries(serviceAgentDefaults)) {
      expect(table.find((row) => row.name === name)?.byDefault, name).toBe(String(value));
    }
  });

  it.each(table.filter(({ range }) => range !== ''))('$name takes $range', ({ name, range }) => {
    const takes = (value: number): boolean => {
      try {
        void createServiceAgent({ [name]: value }).close();
        return true;
      } catch {
        return false;
      }
    };
    const [min, max] = (/\d+/g[Symbol.match](range) ?? []).map(Number) as [number, number];
    expect([min - 0.01, min, max, max + 1, min + 0.5].map(takes)).toEqual([
      false,
      true,
      true,
      false,
      !range.includes('whole'),
    ]);
  });
});
