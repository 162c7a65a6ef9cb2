import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parseTarget } from '../../../src/resolver/target-grammar.js';

const read = (path: string): string => readFileSync(new URL(`../../../docs/${path}`, import.meta.url), 'utf8');
describe('docs/reference/targets.md', () => {
  const page = read('reference/targets.md');

  it('shows only valid targets', () => {
    const [table = ''] = page.split('\n## Ports\n');
    const targets = [...table.matchAll(/^\| `([^`]+)`/gm)].map((match) => match[1] as string);
    expect(targets).toHaveLength(5);
    expect(targets.map((target) => parseTarget(target).kind)).toEqual(['plain', 'kubernetes', 'dns', 'dns', 'static']);
  });
});
