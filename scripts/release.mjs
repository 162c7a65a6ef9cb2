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
import { buildIfChanged } from './build.mjs';
import { layOut, npm, pack } from './pack.mjs';
import { packTwice } from './reproduce.mjs';

const root = join(import.meta.dirname, '..');

/** What is wrong with the section of a version, as lines of text. @param {string} changelog @param {string} version such as `1.2.0` */
export function changelogProblems(changelog, version) {
  const sections = changelog.split(/^## /m).slice(1);
  const section = sections.find((text) => /^\S+/.exec(text)?.[0] === version);
  if (section === undefined) return [`CHANGELOG.md has no section "## ${version}"`];
  const [heading = ''] = section.split('\n', 1);
  const problems = [];
  if (!/^\S+ \(\d{4}-\d{2}-\d{2}\)$/.test(heading)) {
    problems.push(`the heading "## ${heading}" of CHANGELOG.md does not end with the date, such as (2027-01-31)`);
  }
  if (section !== sections[0]) problems.push(`${version} is not the newest section of CHANGELOG.md`);
  if (section.slice(heading.length).trim() === '') problems.push(`the section ${version} of CHANGELOG.md is empty`);
  return problems;
}

/** Where the project lives must be known, as lines of text: provenance names the repository. @param {Record<string, any>} manifest */
export function homeProblems(manifest) {
  const problems = ['author', 'homepage', 'bugs', 'repository']
    .filter((name) => !manifest[name])
    .map((name) => `package.json does not say ${name}`);
  const { url = '' } = manifest.repository ?? {};
  if (manifest.repository && !/^git\+https:\/\/github\.com\/[\w.-]+\/[\w.-]+\.git$/.test(url)) {
    problems.push('repository.url of package.json is not git+https://github.com/<owner>/<name>.git');
  }
  return problems;
}

/** What stands against publishing, before anything was built. @param {Record<string, any>} manifest @param {boolean} skipsTests */
function problemsOf(manifest, skipsTests) {
  const git = (/** @type {string[]} */ ...args) =>
    spawnSync('git', args, { cwd: root, encoding: 'utf8' }).stdout.trim();
  const tag = `v${manifest.version}`;
  return [
    ...homeProblems(manifest),
    ...changelogProblems(readFileSync(join(root, 'CHANGELOG.md'), 'utf8'), manifest.version),
    ...(git('status', '--porcelain') === '' ? [] : ['the working tree has changes that are not committed']),
    ...(git('tag', '--list', tag) === '' ? [] : [`the tag ${tag} exists`]),
    ...(skipsTests ? ['the tests were skipped'] : []),
  ];
}

/** The CycloneDX document of the package: itself, since it has no dependencies. Peers are the application's. */
function billOfMaterials() {
  const parent = mkdtempSync(join(tmpdir(), 'evenkeel-sbom-'));
  // npm takes the component's name from the folder.
  const folder = join(parent, 'evenkeel');
  const common = ['--package-lock-only', '--omit=peer'];
  try {
    mkdirSync(folder);
    layOut(folder);
    npm(['install', ...common, '--ignore-scripts', '--offline', '--no-audit', '--no-fund'], folder);
    return npm(['sbom', ...common, '--sbom-format', 'cyclonedx', '--sbom-type', 'library'], folder);
  } finally {
    rmSync(parent, { recursive: true, force: true });
  }
}

if (process.argv[1] === import.meta.filename) {
  const { values } = parseArgs({ options: { 'dry-run': { type: 'boolean' }, 'skip-tests': { type: 'boolean' } } });
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const say = (/** @type {string} */ what) => console.log(`release ${manifest.version}: ${what}`);
  const refuse = (/** @type {string} */ why) => {
    say(`refused: ${why}`);
    process.exit(1);
  };
  const against = problemsOf(manifest, values['skip-tests'] === true);
  for (const problem of against) say(`${values['dry-run'] ? 'would not publish' : 'refused'}: ${problem}`);
  if (against.length > 0 && !values['dry-run']) process.exit(1);
  if (values['skip-tests']) say('tests were skipped');
  else {
    const args = [join(root, 'scripts/test.mjs'), '--all', '--no-install'];
    if (spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' }).status !== 0) refuse('npm test failed');
  }
  const { failed, output } = buildIfChanged({ clean: true });
  if (failed) throw new Error(`the library does not compile:\n${output}`);
  const out = join(root, 'build/release');
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const { tarball, integrity, files, size } = pack(out);
  say(`${tarball}: ${files.length} files, ${Math.round(size / 1000)} kB, ${integrity}`);
  const again = packTwice();
  if (again.some((each) => each !== integrity)) {
    refuse(`three builds of the same sources differ: ${[integrity, ...again].join(', ')}`);
  }
  say('three builds in different folders are the same bytes');
  const sbom = join(out, `evenkeel-${manifest.version}.cdx.json`);
  writeFileSync(sbom, billOfMaterials());
  const { bomFormat, specVersion, components } = JSON.parse(readFileSync(sbom, 'utf8'));
  say(`${sbom}: ${bomFormat} ${specVersion}, ${components.length} dependencies`);
}
