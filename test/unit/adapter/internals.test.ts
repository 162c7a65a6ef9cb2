import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const adapters = new URL('../../../src/adapter/', import.meta.url);

/** How code takes what a library does not document: a name with an underscore, or a symbol that it does not export. */
const tricks: readonly RegExp[] = [
  /\?*\._\w+/,
  /^\s*(?:readonly )?_\w+\??:.*;$/,
  /\{(?:[^}]*[\s,])?_\w+(?:[\s:][^}]*)?\} = /,
  /\bSymbol\.for\(/,
  /\bgetOwnPropertySymbols\b/,
];

function findIn(text: string): string[] {
  const code = text.split('\n').filter((line) => !/^\s*(?:\/?\*|\/\/)/.test(line));
  return code.filter((line) => tricks.some((trick) => trick.test(line)));
}

it.each([
  'const request = socket._httpMessage?.res;',
  'const { _socket: socket } = client;',
  'const { host, _defaultAgent } = options;',
  '  readonly _self: { execute(): void };',
  'const [symbol] = Object.getOwnPropertySymbols(client);',
  "globalThis[Symbol.for('undici.globalDispatcher.1')];",
])('finds what is undocumented: %s', (line) => {
  expect(findIn(line)).toEqual([line]);
});

it.each([
  '  override _read(): void {}',
  '    _config: Config,',
  'names.filter((_name, index) => index > 0);',
  '// `a._pool`',
])('ignores methods that Node documents, unused arguments and comments: %s', (line) => {
  expect(findIn(line)).toEqual([]);
});

it('the undocumented parts of another library are used in files named internals.ts only', () => {
  const found: string[] = [];
  for (const file of readdirSync(adapters, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts') || file.endsWith('internals.ts')) continue;
    for (const line of findIn(readFileSync(new URL(file, adapters), 'utf8'))) found.push(`${file}: ${line.trim()}`);
  }
  expect(found).toEqual([]);
});
