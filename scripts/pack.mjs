/**
 * Packs what is published: what `files` of package.json names, and a package.json without what is only for development.
 *
 *   npm run pack                       writes build/evenkeel-<version>.tgz
 *   npm run pack -- --out <folder>     writes it there
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { buildIfChanged } from './build.mjs';

const root = join(import.meta.dirname, '..');

/** Lays out the content of the package in an empty folder. `dist` must have been built. @param {string} folder */
export function layOut(folder) {
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const { scripts: _scripts, devDependencies: _dev, private: _private, ...published } = manifest;
  for (const path of [...published.files, 'README.md', 'LICENSE']) {
    cpSync(join(root, path), join(folder, path), { recursive: true });
  }
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(published, null, 2)}\n`);
}

/** Packs and returns the path of the tarball, its hash as npm publishes it, and the paths in it. @param {string} out an existing folder */
export function pack(out) {
  const folder = mkdtempSync(join(tmpdir(), 'evenkeel-package-'));
  try {
    layOut(folder);
    const args = ['pack', folder, '--json', '--loglevel=error', '--pack-destination', out];
    const [packed] = JSON.parse(npm(args));
    return {
      tarball: join(out, packed.filename),
      integrity: /** @type {string} */ (packed.integrity),
      files: /** @type {{ path: string }[]} */ (packed.files).map(({ path }) => path),
      size: /** @type {number} */ (packed.size),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs npm and returns its output. @param {readonly string[]} args @param {string} [cwd] */
export function npm(args, cwd = root) {
  // On Windows npm is a script that a shell must run.
  const options = { cwd, encoding: /** @type {const} */ ('utf8'), shell: process.platform === 'win32' };
  const { status, stdout, stderr } = spawnSync('npm', args, options);
  if (status !== 0) throw new Error(`npm ${args.join(' ')} failed:\n${stderr}`);
  return stdout;
}

if (process.argv[1] === import.meta.filename) {
  const { values } = parseArgs({ options: { out: { type: 'string' } } });
  const out = values.out ?? join(root, 'build');
  const { failed, output } = buildIfChanged();
  if (failed) throw new Error(`the library does not compile:\n${output}`);
  mkdirSync(out, { recursive: true });
  const { tarball, integrity, files, size } = pack(out);
  console.log(`${tarball}: ${files.length} files, ${Math.round(size / 1000)} kB, ${integrity}`);
}
