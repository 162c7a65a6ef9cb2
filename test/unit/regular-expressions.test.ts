import { readdirSync, readFileSync } from 'node:fs';
import { parseAst } from 'rolldown/parseAst';
import { describe, expect, it } from 'vitest';
import { backtracking } from '../support/backtracking.js';

interface Expression {
  readonly file: string;
  readonly source: string;
  readonly flags: string;
}

const root = new URL('../../src/', import.meta.url);

/** All regular expressions of the source, with `name` where a part of one is only known at run time. */
function expressions(): Expression[] {
  const found: Expression[] = [];
  for (const file of readdirSync(root, { recursive: true, encoding: 'utf8' })) {
    if (!/\.(?:ts|js)$/.test(file)) continue;
    const text = readFileSync(new URL(file, root), 'utf8');
    visit(parseAst(text, { lang: 'ts' }), (node) => {
      const { regex, callee, arguments: given } = node as Literal & Call;
      if (regex !== undefined) found.push({ file, source: regex.pattern, flags: regex.flags });
      if (callee?.name === 'RegExp') found.push({ file, source: sourceOf(given[0]), flags: given[1]?.value ?? '' });
    });
  }
  return found;
}

interface Literal {
  readonly regex?: { readonly pattern: string; readonly flags: string };
}
interface Call {
  readonly callee?: { readonly name?: string };
  readonly arguments: readonly Argument[];
}
interface Argument {
  readonly value?: string;
  readonly quasis?: readonly { readonly value: { readonly cooked: string } }[];
}

function sourceOf(argument: Argument | undefined): string {
  return argument?.quasis?.map(({ value }) => value.cooked).join('name') ?? String(argument?.value);
}

function visit(node: unknown, seen: (node: object) => void): void {
  if (typeof node !== 'object' || node === null) return;
  seen(node);
  for (const value of Object.values(node)) visit(value, seen);
}

describe('the time a regular expression takes', () => {
  it.each([
    ['exponential', '^(?:\\s|--[^\\n]*\\n|\\/\\*[\\s\\S]*?\\*\\/)*select', 'i'],
    ['exponential', '^(a+)+$', ''],
    ['exponential', '^(?:a|a)*$', ''],
    ['exponential', '^(?:[a-z]+|\\w)*-', ''],
    ['exponential', '^(?:a{1,5})*b', ''],
    ['polynomial', '^a*a*b', ''],
    ['polynomial', '^\\s*[^,]*,', ''],
    ['polynomial', '\\s+$', ''],
    ['polynomial', ',(?![^(]*\\))', ''],
    ['polynomial', '["\'<].*["\'>]', ''],
    ['linear', '^(?:a+,)*$', ''],
    ['linear', '\\s+', 'g'],
    ['linear', '^\\s*\\S+$', ''],
    ['linear', '^[a-z](?:[-a-z]{0,61}[a-z])?$', ''],
    ['linear', ';\\s*\\S', ''],
    ['linear', '^(?:a|b)*$', ''],
    ['linear', '\\/\\*[^*]*', ''],
  ])('%s: %s', (time, source, flags) => {
    expect(backtracking(source, flags)).toBe(time);
  });

  it('is linear for every one in the source', () => {
    const all = expressions();
    expect(all.length).toBeGreaterThan(100);
    const slow = all.flatMap(({ file, source, flags }) => {
      const time = backtracking(source, flags);
      return time === 'linear' ? [] : [`${time}: /${source}/${flags} in ${file}`];
    });
    expect(slow).toEqual([]);
  });
});
