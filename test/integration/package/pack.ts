import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { TestProject } from 'vitest/node';
// @ts-expect-error: a plain script without types
import { buildIfChanged } from '../../../scripts/build.mjs';

declare module 'vitest' {
  interface ProvidedContext {
    /** The packed package, as `npm publish` would send it. */
    tarball: string;
    /** Paths inside it. */
    packedFiles: string[];
  }
}

const root = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))));

/** Builds and packs the package once for all tests about it. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { failed, output } = buildIfChanged();
  if (failed) throw new Error(`the library does not compile:\n${output}`);
  const folder = await mkdtemp(join(tmpdir(), 'evenkeel-pack-'));
  const args = ['pack', '--json', '--ignore-scripts', '--loglevel=error', '--pack-destination', folder];
  const { stdout } = await promisify(execFile)('npm', args, { cwd: root });
  const [packed] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
  project.provide('tarball', join(folder, packed.filename));
  project.provide(
    'packedFiles',
    packed.files.map(({ path }) => path),
  );
  return () => rm(folder, { recursive: true, force: true });
}
