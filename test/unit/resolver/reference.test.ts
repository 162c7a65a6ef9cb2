import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { dnsSettingNames } from '../../../src/resolver/dns.js';
import { resolverFrom } from '../../../src/resolver/target.js';
import { parseTarget } from '../../../src/resolver/target-grammar.js';

const read = (path: string): string => readFileSync(new URL(`../../../docs/${path}`, import.meta.url), 'utf8');
/** First cells of the table that follows a heading, without back-ticks. */
const firstCells = (page: string, heading: string): string[] => {
  const section = page.split(`## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';
  return [...section.matchAll(/^\| `([^`]+)`/gm)].map((match) => match[1] as string);
};

describe('docs/guide/headless-dns.md', () => {
  it('lists every option of dns(), and no other', () => {
    const documented = firstCells(read('guide/headless-dns.md'), 'Options');
    expect(documented.sort()).toEqual(['host', 'port', 'srv', 'family', ...dnsSettingNames].sort());
  });
});

describe('docs/reference/targets.md', () => {
  const page = read('reference/targets.md');

  it('lists every option of resolverFrom(), and no other', () => {
    let known = '';
    try {
      resolverFrom('orders.shop:80', { nonsense: 1 } as object);
    } catch (error) {
      known = (error as Error).message.replace(/^.*it knows /, '');
    }
    expect(firstCells(page, 'In code').sort()).toEqual(known.split(', ').sort());
  });

  it('shows only targets that are ones', () => {
    const [table = ''] = page.split('\n## Ports\n');
    const targets = [...table.matchAll(/^\| `([^`]+)`/gm)].map((match) => match[1] as string);
    expect(targets).toHaveLength(5);
    expect(targets.map((target) => parseTarget(target).kind)).toEqual(['plain', 'kubernetes', 'dns', 'dns', 'static']);
  });
});
