import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
// @ts-expect-error: a plain script without types
import { buildIfChanged } from '../../../scripts/build.mjs';
// @ts-expect-error: a plain script without types
import { pack } from '../../../scripts/pack.mjs';
import { installPacked } from '../../support/programs/consumer.js';

declare module 'vitest' {
  interface ProvidedContext {
    /** The packed package, as `npm publish` would send it. */
    tarball: string;
    /** Paths inside it. */
    packedFiles: string[];
    /** `node_modules` of a project in which npm installed it, and nothing else. */
    installed: string;
  }
}

/** Builds, packs and installs the package once for all tests about it. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { failed, output } = buildIfChanged();
  if (failed) throw new Error(`the library does not compile:\n${output}`);
  const folder = await mkdtemp(join(tmpdir(), 'evenkeel-pack-'));
  const { tarball, files } = pack(folder) as { tarball: string; files: string[] };
  project.provide('tarball', tarball);
  project.provide('packedFiles', files);
  const consumer = join(folder, 'consumer');
  await mkdir(consumer);
  project.provide('installed', await installPacked(tarball, consumer));
  return () => rm(folder, { recursive: true, force: true });
}
