import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { describe, expect, inject, test } from 'vitest';
import { runProgram } from '../../support/programs/consumer.js';
import { sourcesIn } from './sources-in.js';

interface Manifest {
  readonly exports: Record<string, string | { readonly types: string; readonly default: string }>;
  readonly dependencies?: Record<string, string>;
}

const root = join(import.meta.dirname, '../../..');
const manifest = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as Manifest & Record<string, unknown>;

describe('the packed package', () => {
  const files = inject('packedFiles');

  test('holds the compiled library and what a reader needs, nothing else', () => {
    const expected =
      /^(dist\/.+\.(js|d\.ts)|dist\/register\/(register|undici|grpc-js)\.cjs|dist\/register\/register\.d\.cts|docs\/.+\.md|package\.json|README\.md|LICENSE|NOTICE|SECURITY\.md|CHANGELOG\.md)$/;
    expect(files.filter((file) => !expected.test(file))).toEqual([]);
    expect(files).toContain('LICENSE');
    expect(files).toContain('README.md');
  });

  test('holds every file that its entry points name', () => {
    const named = Object.values(manifest.exports)
      .flatMap((entryPoint) => (typeof entryPoint === 'string' ? [entryPoint] : [entryPoint.types, entryPoint.default]))
      .map((file) => file.replace('./', ''));
    expect(named.filter((file) => !files.includes(file))).toEqual([]);
  });

  test('has commands that run where it was built, without an installation by npm', async () => {
    const commands = Object.values(manifest.bin as Record<string, string>);
    expect(commands).toEqual(['./dist/cli/evenkeel.js']);
    for (const command of commands) expect((await stat(join(root, command))).mode & 0o111, command).toBe(0o111);
  });

  test('holds each module once, whichever entry points share it', async () => {
    const built = files.filter((file) => file.endsWith('.js'));
    const sources = await Promise.all(built.map(async (file) => sourcesIn(await readFile(join(root, file), 'utf8'))));
    const all = sources.flat();
    expect(all.length).toBeGreaterThan(200);
    expect(all.filter((file, at) => all.indexOf(file) !== at)).toEqual([]);
  });

  test('has code in ASCII alone, of which Node keeps a byte per character', async () => {
    const built = files.filter((file) => /\.c?js$/.test(file));
    const texts = await Promise.all(
      built.map(async (file) => [file, await readFile(join(root, file), 'utf8')] as const),
    );
    expect(texts.filter(([, text]) => Buffer.byteLength(text) > text.length).map(([file]) => file)).toEqual([]);
  });

  test('contains only our code and what NOTICE names', async () => {
    const built = files.filter((file) => /\.c?js$/.test(file));
    const texts = await Promise.all(
      built.map(async (file) => ({ file, text: await readFile(join(root, file), 'utf8') })),
    );
    // The bundler names each module in front of its code.
    const modules = texts.flatMap(({ file, text }) =>
      [...text.matchAll(/^\/\/ (?:\\0)?(\S+\.[cm]?[jt]s)$/gm)].map(([, module = '']) => ({ file, module })),
    );
    const foreign = modules.filter(({ module }) => !module.startsWith('src/'));
    const notice = await readFile(join(root, 'NOTICE'), 'utf8');
    expect(modules.length).toBeGreaterThan(200);
    expect(foreign.filter(({ file, module }) => !notice.includes(file) || !notice.includes(module))).toEqual([]);
  });

  test('has no runtime dependency', () => {
    expect(manifest.dependencies ?? {}).toEqual({});
  });

  test('publint finds nothing', async () => {
    const bytes = await readFile(inject('tarball'));
    const { messages } = await publint({
      pack: { tarball: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer },
      strict: true,
    });
    expect(messages.map((message) => formatMessage(message, manifest, { color: false }))).toEqual([]);
  });

  test('attw finds no entry point whose types cannot be resolved', async () => {
    const attw = join(root, 'node_modules/@arethetypeswrong/cli/dist/index.js');
    const args = [attw, inject('tarball'), '--profile', 'esm-only', '--format', 'ascii', '--no-color'];
    const { code, stdout, stderr } = await runProgram(process.execPath, args, root);
    expect(code, stdout + stderr).toBe(0);
  });
});
