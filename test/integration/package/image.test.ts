import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { runProgram } from '../../support/programs/consumer.js';

const root = join(import.meta.dirname, '../../..');

describe('the image that deploy/ mounts into pods', () => {
  let folder: string;
  let image: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'evenkeel-image-test-'));
    image = join(folder, 'image');
    const args = [join(root, 'scripts/image.mjs'), '--out', image, '--tarball', inject('tarball')];
    const { code, stderr } = await runProgram(process.execPath, args, folder);
    expect(stderr).toBe('');
    expect(code).toBe(0);
    await writeFile(join(folder, 'app.cjs'), 'console.log("the app runs", process.argv.slice(2).join(" "));\n');
  });

  afterAll(() => rm(folder, { recursive: true, force: true }));

  const runApp = (loader: string) => runProgram(process.execPath, ['--require', loader, 'app.cjs', 'well'], folder);

  test('contains the loader, the published package, and undici', async () => {
    expect((await readdir(image)).sort()).toEqual(['node_modules', 'register.cjs']);
    expect((await readdir(join(image, 'node_modules'))).sort()).toEqual(['evenkeel', 'undici']);
    const { version } = JSON.parse(await readFile(join(image, 'node_modules/evenkeel/package.json'), 'utf8')) as {
      version: string;
    };
    const own = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
    expect(version).toBe(own.version);
  });

  test('an app started with its loader runs, and nothing is printed', async () => {
    expect(await runApp(join(image, 'register.cjs'))).toEqual({ code: 0, stdout: 'the app runs well\n', stderr: '' });
  });

  test('a loader without the rest lets the app run, and says so in one line', async () => {
    const alone = join(folder, 'register.cjs');
    await writeFile(alone, await readFile(join(image, 'register.cjs')));
    const { code, stdout, stderr } = await runApp(alone);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'the app runs well\n' });
    expect(stderr).toMatch(/^evenkeel: not loaded, the app runs without it: [^\n]+\n$/);
  });

  test('the manifests name the version of the package', async () => {
    const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
    for (const file of ['inject/policy.yaml', 'init-container/patch.yaml']) {
      expect(await readFile(join(root, 'deploy', file), 'utf8')).toContain(`evenkeel:${version}`);
    }
  });
});
