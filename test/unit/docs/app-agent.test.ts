import { describe, expect, it } from 'vitest';
import { appDefaults, appOptionNames } from '../../../src/adapter/http/app-options.js';
import { createAppAgent } from '../../../src/adapter/undici/index.js';
import { optionRows, sectionOf, textOf } from '../../support/docs-page.js';

describe('docs/reference/options-http.md, createAppAgent', () => {
  const table = optionRows(
    sectionOf(textOf('docs/reference/options-http.md'), '`createAppAgent` and `appInterceptor`'),
  );

  it('has every option', () => {
    expect(table.map(({ name }) => name).sort()).toEqual([...appOptionNames, 'fallbackDispatcher', 'webSocket'].sort());
  });

  it('has the defaults of the source', () => {
    for (const [name, value] of Object.entries(appDefaults)) {
      expect(table.find((row) => row.name === name)?.byDefault, name).toBe(String(value));
    }
  });

  it.each(table.filter(({ range }) => range !== ''))('$name takes $range', ({ name, range }) => {
    const takes = (value: number): boolean => {
      try {
        void createAppAgent({ [name]: value }).close();
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
