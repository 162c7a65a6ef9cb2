import { describe, expect, it } from 'vitest';
import { parseJson } from '../../../../../src/resolver/kubernetes/api/json-text.js';
import { drawIndex } from '../../../../../src/runtime/rng.js';
import { seededRng } from '../../../../../src/testing/seeded-rng.js';

const plenty = (): { containers: number } => ({ containers: 1_000 });

describe('parseJson', () => {
  it('counts only brackets outside strings', () => {
    const text = JSON.stringify({ 'a"[': ['\\', '\\"{[', ''], b: '[[[[{{{{' });
    const budget = plenty();
    expect(parseJson(text, budget)).toEqual(JSON.parse(text));
    expect(budget.containers).toBe(998);
  });

  it('refuses text that is nested deeply, or has too many objects, before it creates any', () => {
    expect(() => parseJson('['.repeat(10_000_000), plenty())).toThrow(/nested deeper than 64/);
    expect(() => parseJson(`{"a":`.repeat(65), plenty())).toThrow(/nested/);
    expect(() => parseJson(`[${'{},'.repeat(1_000)}{}]`, plenty())).toThrow(/too many/);
    expect(parseJson(`${'['.repeat(64)}${']'.repeat(64)}`, plenty())).toHaveLength(1);
  });

  it('refuses more field names than any list has, in one object or in many', () => {
    const names = Array.from({ length: 8_000 }, (_, index) => `"name ${index}" : 0`);
    expect(() => parseJson(`{${names.join(',')}}`, plenty())).toThrow(/names of fields/);
    expect(() => parseJson(`[{${names.join('},{')}}]`, { containers: 10_000 })).toThrow(/names of fields/);
    expect(parseJson(`{${names.slice(0, 4_000).join(',')}}`, plenty())).toHaveProperty('name 3999', 0);
    // The same again, and strings that are no names.
    const known = JSON.stringify(Array.from({ length: 900 }, (_, index) => ({ name: `value ${index}`.repeat(20) })));
    for (let round = 0; round < 10; round++) expect(parseJson(known, plenty())).toHaveLength(900);
    expect(parseJson(JSON.stringify(names), plenty())).toHaveLength(8_000);
  });

  it('applies one budget to several texts', () => {
    const budget = { containers: 3 };
    parseJson('[{}]', budget);
    expect(() => parseJson('[{}]', budget)).toThrow(/too many/);
  });

  it('reads what JSON.parse reads, and throws where it throws', () => {
    const rng = seededRng(4);
    const alphabet = ['[', ']', '{', '}', '"', '\\', 'a', ':', ',', '1'];
    for (let round = 0; round < 20_000; round++) {
      const text = Array.from({ length: drawIndex(rng, 12) }, () => alphabet[drawIndex(rng, alphabet.length)]).join('');
      const outcome = (parse: () => unknown): string => {
        try {
          return JSON.stringify(parse());
        } catch (error) {
          return (error as Error).message;
        }
      };
      expect(outcome(() => parseJson(text, plenty()))).toBe(outcome(() => JSON.parse(text)));
    }
  });
});
