/**
 * Makes what a release publishes, for the version that package.json names: checks, builds, packs, writes the list of components (SBOM).
 * The release workflow publishes it in a job in which nothing of this runs.
 *
 *   npm run release                              ends at once if something stands against publishing
 *   npm run release -- --dry-run                 goes on, and says what stands against publishing
 *   npm run release -- --dry-run --skip-tests    the same without `npm test`, and says so
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { buildIfChanged } from '../build.mjs';
import { changelogProblems } from './changelog.mjs';
import { homeProblems, readHome } from './home.mjs';
import { layOut, npm, pack } from './pack.mjs';
import { packTwice } from './reproduce.mjs';

const root = join(import.meta.dirname, '../..');
const out = join(root, 'build/release');
const { values } = parseArgs({ options: { 'dry-run': { type: 'boolean' }, 'skip-tests': { type: 'boolean' } } });
const isDryRun = values['dry-run'] === true;
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const tag = `v${version}`;

/** @param {readonly string[]} args */
function git(args) {
  const { status, stdout, stderr } = spawnSync('git', args, { cwd: root, encoding: 'utf8' });
  if (status !== 0) throw new Error(`git ${args.join(' ')} failed:\n${stderr}`);
  return stdout.trim();
}

/** What stands against publishing, before anything was built. */
function problems() {
  const found = [
    ...homeProblems(readHome()),
    ...changelogProblems(readFileSync(join(root, 'CHANGELOG.md'), 'utf8'), version),
  ];
  if (git(['status', '--porcelain']) !== '') found.push('the working tree has changes that are not committed');
  if (git(['tag', '--list', tag]) !== '') found.push(`the tag ${tag} exists`);
  if (values['skip-tests']) found.push('the tests were skipped');
  return found;
}

/** The CycloneDX document of the package: itself, since it has no dependencies. Peers are the application's. */
function billOfMaterials() {
  const parent = mkdtempSync(join(tmpdir(), 'evenkeel-sbom-'));
  // npm takes the component's name from the folder.
  const folder = join(parent, 'evenkeel');
  try {
    mkdirSync(folder);
    layOut(folder);
    npm(
      ['install', '--package-lock-only', '--omit=peer', '--ignore-scripts', '--offline', '--no-audit', '--no-fund'],
      folder,
    );
    return npm(
      ['sbom', '--sbom-format', 'cyclonedx', '--sbom-type', 'library', '--package-lock-only', '--omit=peer'],
      folder,
    );
  } finally {
    rmSync(parent, { recursive: true, force: true });
  }
}

/** @param {string} what */
const say = (what) => console.log(`release ${version}: ${what}`);

const against = problems();
for (const problem of against) say(`${isDryRun ? 'would not publish' : 'refused'}: ${problem}`);
if (against.length > 0 && !isDryRun) process.exit(1);

if (values['skip-tests']) say('tests were skipped');
else if (
  spawnSync(process.execPath, [join(root, 'scripts/test.mjs'), '--all', '--no-install'], {
    cwd: root,
    stdio: 'inherit',
  }).status !== 0
) {
  say('refused: npm test failed');
  process.exit(1);
}

const { failed, output } = buildIfChanged({ clean: true });
if (failed) throw new Error(`the library does not compile:\n${output}`);
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const { tarball, integrity, files, size } = pack(out);
say(`${tarball}: ${files.length} files, ${Math.round(size / 1000)} kB, ${integrity}`);

const again = packTwice();
if (again.some((each) => each !== integrity)) {
  say(`refused: three builds of the same sources differ: ${[integrity, ...again].join(', ')}`);
  process.exit(1);
}
say('three builds in different folders are the same bytes');

const sbom = join(out, `evenkeel-${version}.cdx.json`);
writeFileSync(sbom, billOfMaterials());
const { bomFormat, specVersion, components } = JSON.parse(readFileSync(sbom, 'utf8'));
say(`${sbom}: ${bomFormat} ${specVersion}, ${components.length} dependencies`);
