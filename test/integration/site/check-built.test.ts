import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
// @ts-expect-error A script without types.
import { checkBuilt } from '../../../site/check-built.mjs';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'evenkeel-site-'));
  mkdirSync(join(folder, 'guide'));
  writeFileSync(join(folder, 'logo.svg'), '<svg/>');
  writeFileSync(join(folder, 'index.html'), '<h1 id="top">a</h1>');
});
afterEach(() => rmSync(folder, { recursive: true }));

/** What the check says of a page `guide/http.html` with this body. */
function problemsOf(body: string, base = '/'): string[] {
  writeFileSync(join(folder, 'guide/http.html'), body);
  return (checkBuilt(folder, base) as { problems: string[] }).problems;
}

it('accepts links that lead to a page, a heading or a file, and links to other hosts', () => {
  const links = ['/', '/index.html#top', '../index.html', '/guide/http', '/logo.svg', 'https://kubernetes.io/'];
  expect(problemsOf(links.map((link) => `<a href="${link}">x</a>`).join(''))).toEqual([]);
  expect(problemsOf('<a href="/docs/logo.svg">x</a><img src="/docs/logo.svg" alt="A boat">', '/docs/')).toEqual([]);
});

it.each([
  ['<a href="/nowhere.html">x</a>', '/nowhere.html leads nowhere'],
  ['<a class="a" href="../nowhere.html">x</a>', '../nowhere.html leads nowhere'],
  ['<a href="/index.html#none">x</a>', '/index.html#none has no such heading'],
  ['<img src="/none.png" alt="A picture">', '/none.png leads nowhere'],
  ['<img src="/logo.svg">', '<img src="/logo.svg"> has no text'],
  ['<img src="/logo.svg" alt="">', '<img src="/logo.svg" alt=""> has no text'],
  ['<script src="https://cdn.example.com/x.js"></script>', 'loads https://cdn.example.com/x.js'],
  ['<link rel="stylesheet" href="//cdn.example.com/x.css">', 'loads //cdn.example.com/x.css'],
])('finds what is wrong with %s', (body, problem) => {
  expect(problemsOf(body)).toEqual([`guide/http.html: ${problem}`]);
});

it('finds a style sheet that loads from another host', () => {
  writeFileSync(join(folder, 'style.css'), '@font-face { src: url("https://fonts.example.com/a.woff2") }');
  expect(problemsOf('')).toEqual(['style.css: loads https://fonts.example.com/a.woff2']);
});
