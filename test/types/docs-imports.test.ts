import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { Consumer, runProgram } from '../support/consumer.js';

const root = join(import.meta.dirname, '../..');
const { peerDependencies, devDependencies } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));

/** Import statements from our doors in the code blocks of a Markdown file. */
function importsOf(text: string): string[] {
  const blocks = [...text.matchAll(/^```(?:ts|js|typescript|javascript|mjs)\b.*\n([\s\S]*?)^```/gm)];
  return blocks.flatMap(([, code = '']) =>
    [...code.matchAll(/^import\s[^;'"]*\sfrom\s+(['"])evenkeel(?:\/[\w-]+)*\1;?/gm)].map(([statement]) => statement),
  );
}

async function markdownFiles(): Promise<string[]> {
  const found: string[] = [];
  for (const place of ['.', 'docs', 'examples']) {
    const recursive = place !== '.';
    for (const entry of await readdir(join(root, place), { recursive, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      if (entry.isFile() && entry.name.endsWith('.md') && !path.includes('node_modules')) found.push(path);
    }
  }
  return found;
}

let consumer: Consumer;
beforeAll(async () => {
  const peers = Object.keys(peerDependencies).filter((peer) => peer in devDependencies);
  consumer = await Consumer.create(inject('tarball'), ['@types/node', 'undici-types', ...peers]);
});
afterAll(() => consumer.remove());

test('whatever the documents import from our doors is there', async () => {
  let count = 0;
  await mkdir(join(consumer.folder, 'docs'));
  for (const file of await markdownFiles()) {
    const name = relative(root, file).replaceAll(/[^\w]+/g, '-');
    for (const statement of importsOf(await readFile(file, 'utf8'))) {
      await writeFile(join(consumer.folder, 'docs', `${name}-${++count}.ts`), `${statement}\n`);
    }
  }
  const compilerOptions = { module: 'NodeNext', target: 'ES2022', types: ['node'], skipLibCheck: true, noEmit: true };
  await writeFile(join(consumer.folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['docs'] }));
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  expect(await runProgram(process.execPath, [tsc, '-p', '.'], consumer.folder)).toEqual({
    code: 0,
    stdout: '',
    stderr: '',
  });
  expect(count).toBeGreaterThan(0);
});
