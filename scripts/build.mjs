/**
 * Compiles src to dist with tsc, when something changed since the last time.
 *
 *   node scripts/build.mjs              builds if needed
 *   node scripts/build.mjs --clean      empties dist first and always builds (npm pack)
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(root, 'dist');
const stamp = join(root, 'node_modules', '.cache', 'evenkeel', 'dist-sources');

/** Builds unless dist was made from these very sources. */
export function buildIfChanged({ clean = false } = {}) {
  const hash = sourcesHash();
  if (!clean && existsSync(join(dist, 'index.js')) && readIfThere(stamp) === hash) return { built: false, output: '' };
  rmSync(stamp, { force: true });
  if (clean) rmSync(dist, { recursive: true, force: true });
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const result = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: root, encoding: 'utf8' });
  if (result.status !== 0) return { built: false, failed: true, output: result.stdout + result.stderr };
  removeOrphans();
  mkdirSync(dirname(stamp), { recursive: true });
  writeFileSync(stamp, hash);
  return { built: true, output: result.stdout };
}

/** One hash over what the result depends on: sources, compiler options, compiler. */
function sourcesHash() {
  const hash = createHash('sha256');
  const compiler = join('node_modules', 'typescript', 'package.json');
  const sources = filesUnder(join(root, 'src')).map((file) => relative(root, file));
  for (const file of ['tsconfig.json', 'tsconfig.build.json', compiler, ...sources.sort()]) {
    hash
      .update(file)
      .update('\0')
      .update(readFileSync(join(root, file)))
      .update('\0');
  }
  return hash.digest('hex');
}

/** Takes away what was compiled from files that are gone, so that no import finds them. */
function removeOrphans() {
  for (const file of filesUnder(dist)) {
    const source = relative(dist, file).replace(/(\.d\.ts|\.js)$/, '.ts');
    if (!existsSync(join(root, 'src', source))) rmSync(file);
  }
}

function filesUnder(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

function readIfThere(file) {
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { failed, output } = buildIfChanged({ clean: process.argv.includes('--clean') });
  if (failed) {
    console.error(output);
    process.exitCode = 1;
  }
}
