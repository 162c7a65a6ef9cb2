/**
 * Lays out the content of the image that `deploy/` mounts into pods: the loader, the package as it is published, and
 * undici, in the versions of the lockfile.
 *
 *   npm run image                             builds the package, writes build/image
 *   npm run image -- --out <folder>           writes another, empty folder
 *   npm run image -- --tarball <file>         takes a package that was packed already
 */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { buildIfChanged } from './build.mjs';
import { pack } from './release/pack.mjs';

const root = join(import.meta.dirname, '..');
const { values } = parseArgs({ options: { out: { type: 'string' }, tarball: { type: 'string' } } });
const out = values.out ?? join(root, 'build/image');
/** What the package needs beside itself: undici, for what apps send through Node's own fetch. */
const dependencies = ['undici'];

/** Builds and packs the package; returns the tarball. @param {string} folder */
function packHere(folder) {
  const { failed, output } = buildIfChanged({ clean: true });
  if (failed) throw new Error(`the library does not compile:\n${output}`);
  return pack(folder).tarball;
}

/** @param {string} command @param {readonly string[]} args */
function run(command, args) {
  const { status, stderr, stdout } = spawnSync(command, args, { cwd: root, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed:\n${stderr}`);
  return stdout;
}

if (values.out === undefined) rmSync(out, { recursive: true, force: true });
else if (existsSync(out) && readdirSync(out).length > 0) throw new Error(`${out} is not empty`);
mkdirSync(join(out, 'node_modules/evenkeel'), { recursive: true });
const folder = mkdtempSync(join(tmpdir(), 'evenkeel-image-'));
try {
  const tarball = values.tarball ?? packHere(folder);
  run('tar', ['-xzf', tarball, '-C', join(out, 'node_modules/evenkeel'), '--strip-components=1']);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
for (const name of dependencies) {
  cpSync(join(root, 'node_modules', name), join(out, 'node_modules', name), { recursive: true, dereference: true });
}
cpSync(join(root, 'deploy/loader/register.cjs'), join(out, 'register.cjs'));
console.log(`image: ${out}`);
