import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { Consumer, runProgram } from '../support/programs/consumer.js';

const root = join(import.meta.dirname, '../..');
const { peerDependencies, devDependencies } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));

/** What a page's blocks need besides the packages installed here. */
interface Needs {
  /** Files the blocks import, from the repository. */
  readonly files?: readonly string[];
  /** Packages that are not installed here: everything imported from them has type `any`. */
  readonly untyped?: readonly string[];
}

const needs: Readonly<Record<string, Needs>> = {
  'docs/guide/adapters.md': { files: ['examples/any-protocol/line-transport.js'] },
  'docs/guide/frameworks.md': {
    untyped: [
      ...['express', 'fastify', '@nestjs/common', '@nestjs/core', '@nestjs/microservices', 'reflect-metadata', 'rxjs'],
      ...['@/lib/orders.js', '~/orders.server', 'nitropack/runtime'],
      ...['@fastify/reply-from', 'http-proxy-middleware', '@apollo/gateway', '@apollo/server'],
      ...['@apollo/server/standalone', '@graphql-hive/gateway-runtime'],
    ],
  },
  'docs/guide/grpc.md': { files: ['examples/grpc/orders.js'] },
  'docs/guide/migrating.md': { files: ['examples/grpc/orders.js'] },
  'docs/guide/retries.md': { files: ['examples/any-protocol/line-transport.js'] },
  'docs/guide/mysql-orms.md': { untyped: ['typeorm'] },
  'docs/guide/postgres.md': { untyped: ['typeorm'] },
};

interface Block {
  /** `cjs` for a script with `require`, whose label says so. */
  readonly language: 'ts' | 'js' | 'cjs';
  /** The label of its tab on the site; '' if it has none. */
  readonly label: string;
  /** The line of the page it begins on. */
  readonly line: number;
  readonly code: string;
}

/** A page's blocks of TypeScript and JavaScript. */
function blocksOf(text: string): Block[] {
  return [...text.matchAll(/^ *```(ts|js|typescript|javascript|mjs)\b(?: \[(.*)\])?.*\n([\s\S]*?)^ *```/gm)].map(
    ([, language = '', label = '', code = ''], index, all) => ({
      language: language.startsWith('t') ? 'ts' : label === 'require' ? 'cjs' : 'js',
      label,
      line: text.slice(0, all[index]?.index).split('\n').length + 1,
      code,
    }),
  );
}

/** What a program takes from evenkeel, as `evenkeel/undici { createFetch }`. */
function evenkeelNames(code: string): string[] {
  const taken = /^(?:import|const) (\{.*\}) (?:from|=) (?:require\()?'(evenkeel[^']*)'/gm;
  return [...code.matchAll(taken)].map(([, names, path]) => `${path} ${names}`);
}

async function markdownFiles(): Promise<string[]> {
  const found: string[] = [];
  for (const place of ['.', 'docs', 'examples', 'site']) {
    const recursive = place !== '.';
    for (const entry of await readdir(join(root, place), { recursive, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      if (entry.isFile() && entry.name.endsWith('.md') && !path.includes('node_modules')) found.push(path);
    }
  }
  return found.map((path) => relative(root, path)).sort();
}

/**
 * Errors that mean that a program does not run: no such name, module or export. In JavaScript, which declares no types,
 * only these count. TypeScript must compile without any error.
 */
const broken = new Set([2304, 2305, 2306, 2307, 2459, 2460, 2552, 2581, 2613, 2614, 2724, 18004]);

/** What the compiler says of packages it has no types of: no type arguments, no such type. */
const ofUntyped = new Set([2347, 2709]);

const pages = (
  await Promise.all(
    (await markdownFiles()).map(async (page) => ({ page, blocks: blocksOf(await readFile(join(root, page), 'utf8')) })),
  )
).filter(({ blocks }) => blocks.length > 0);

let consumer: Consumer;
/** The compiler's errors, by page. */
const errors = new Map<string, string[]>();

beforeAll(async () => {
  const peers = Object.keys(peerDependencies).filter((peer) => peer in devDependencies);
  const installed = Object.keys(devDependencies).filter((name) => !peers.includes(name));
  consumer = await Consumer.create(inject('installed'), ['undici-types', ...peers, ...installed]);
  const compilerOptions = {
    module: 'NodeNext',
    target: 'ES2022',
    lib: ['ES2023', 'ESNext.Disposable'],
    types: ['node'],
    strict: true,
    allowJs: true,
    checkJs: true,
    experimentalDecorators: true,
    moduleDetection: 'force',
    skipLibCheck: true,
    noEmit: true,
  };
  await writeFile(join(consumer.folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['pages'] }));
  for (const { page, blocks } of pages) {
    const folder = join(consumer.folder, 'pages', page);
    await mkdir(folder, { recursive: true });
    const { files = [], untyped = [] } = needs[page] ?? {};
    for (const file of files) await cp(join(root, file), join(folder, file.replace(/.*\//, '')));
    if (untyped.length > 0) {
      const declarations = untyped.map((name) => `declare module '${name}';`).join('\n');
      await writeFile(join(consumer.folder, 'pages', `${page.replaceAll(/\W/g, '-')}.d.ts`), declarations);
    }
    for (const { language, line, code } of blocks) await writeFile(join(folder, `${line}.${language}`), code);
  }
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const { stdout, stderr } = await runProgram(process.execPath, [tsc, '-p', '.', '--pretty', 'false'], consumer.folder);
  expect(stderr).toBe('');
  for (const line of stdout.split('\n')) {
    const [, page = '', first = '', language, at = '', code = '', message] =
      /^pages\/(.+\.md)\/(\w+)\.(ts|js|cjs)\((\d+),\d+\): error TS(\d+): (.*)$/.exec(line) ?? [];
    // Anything else is not about a block: then nothing was looked at.
    if (message === undefined && line.includes('error TS')) throw new Error(line);
    if (message === undefined || (language !== 'ts' && !broken.has(Number(code)))) continue;
    if (needs[page]?.untyped !== undefined && ofUntyped.has(Number(code))) continue;
    errors.set(page, [...(errors.get(page) ?? []), `${page}:${Number(first) + Number(at) - 1} ${message}`]);
  }
});
afterAll(() => consumer?.remove());

test('there are pages with code', () => {
  expect(pages.length).toBeGreaterThan(10);
});

describe.each(pages)('$page', ({ page, blocks }) => {
  test(`its ${blocks.length} code blocks are complete`, () => {
    expect(errors.get(page) ?? []).toEqual([]);
  });
});

const tabbed = pages.filter(({ blocks }) => blocks.some(({ label }) => label !== ''));

test.each(tabbed)(
  '$page: an import block and the require block beside it use the same names of evenkeel',
  ({ blocks }) => {
    const labelled = blocks.filter(({ label }) => label !== '');
    expect(labelled.map(({ label }) => label)).toEqual(labelled.map((_, at) => (at % 2 === 0 ? 'import' : 'require')));
    for (const [at, { code }] of labelled.entries()) {
      const names = evenkeelNames(code);
      expect(names.length).toBeGreaterThan(0);
      if (at % 2 === 1) expect(names).toEqual(evenkeelNames(labelled[at - 1]?.code ?? ''));
    }
  },
);
