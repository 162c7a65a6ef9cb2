/**
 * Everything a bare machine with Node and npm still needs: dependencies, the built library, and for the tests and the benchmarks the
 * system packages some of them use. Runs before anything is installed, so it imports nothing but Node's own modules.
 *
 *   node scripts/set-up.mjs             dependencies and dist (npm start)
 *   node scripts/set-up.mjs --system    and the tests' system packages (npm test)
 *   node scripts/set-up.mjs --benchmarks             and the benchmarks' system packages (npm run bench)
 *   node scripts/set-up.mjs --only-system            only the tests' system packages (npm run setup:system)
 *   node scripts/set-up.mjs --system --no-install    says which system packages are missing, and installs none
 */
import { spawnSync } from 'node:child_process';
import { existsSync, lstatSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildIfChanged } from './build.mjs';
import { findCommand, installHint, packagesFor } from './system-packages.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** Prints one line per step: what was looked at and what came of it. */
function say(text) {
  console.log(`set-up: ${text}`);
}

function checkNode() {
  const wanted = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).engines.node.replace('>=', '');
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const [wantedMajor = 0, wantedMinor = 0] = wanted.split('.').map(Number);
  if (major > wantedMajor || (major === wantedMajor && minor >= wantedMinor)) {
    say(`Node ${process.versions.node}`);
    return;
  }
  console.error(`set-up: evenkeel needs Node ${wanted} or later, this is ${process.versions.node}.`);
  console.error('set-up: install a newer one (https://nodejs.org/) and run the command again.');
  process.exit(1);
}

/** The packages of a lockfile as path → version. */
function lockedVersions(file) {
  const { packages } = JSON.parse(readFileSync(file, 'utf8'));
  return new Map(Object.entries(packages).filter(([path]) => path !== ''));
}

/** What npm would have to install, from npm's own record of what node_modules holds. Packages for other platforms may be missing. */
function missingDependencies() {
  const installed = join(root, 'node_modules', '.package-lock.json');
  if (!existsSync(installed)) return ['all'];
  const present = lockedVersions(installed);
  const missing = [];
  for (const [path, wanted] of lockedVersions(join(root, 'package-lock.json'))) {
    const found = present.get(path);
    if (found === undefined ? !wanted.optional : found.version !== wanted.version) missing.push(path);
  }
  return missing;
}

function installDependencies() {
  if (missingDependencies().length === 0) {
    say('dependencies are in place');
    return;
  }
  say('installing dependencies (npm ci) …');
  const started = performance.now();
  // `npm ci` installs what the lockfile says and never writes it.
  const flags = ['ci', '--no-audit', '--no-fund', '--no-update-notifier', '--loglevel=error'];
  // Under `npm start` npm names its own program; on Windows `npm` alone is a script a shell must run.
  const npm = process.env.npm_execpath;
  const result = npm?.endsWith('.js')
    ? spawnSync(process.execPath, [npm, ...flags], { cwd: root, stdio: 'inherit' })
    : spawnSync('npm', flags, { cwd: root, stdio: 'inherit', shell: process.platform === 'win32' });
  if (result.status !== 0) {
    console.error('set-up: npm ci failed; see its message above.');
    process.exit(1);
  }
  say(`dependencies installed in ${seconds(started)}`);
}

function build() {
  const started = performance.now();
  const { built, output, failed } = buildIfChanged();
  if (failed) {
    console.error(`${output}\nset-up: the library does not compile; see above.`);
    process.exit(1);
  }
  say(built ? `built dist in ${seconds(started)}` : 'dist is up to date');
}

/**
 * Installs what is missing where that is possible. Never fails: the tests and benchmarks that need it say that they did not run.
 * @param {'tests' | 'benchmarks'} purpose
 */
function installSystemPackages(purpose) {
  const packages = packagesFor(purpose);
  const missing = packages.filter((wanted) => findCommand(wanted.commands) === undefined);
  if (missing.length === 0) {
    say(`system packages are in place (${packages.map(({ name }) => name).join(', ')})`);
    return;
  }
  const mayInstall = !process.argv.includes('--no-install');
  const allowed =
    mayInstall && process.platform === 'linux' && process.getuid?.() === 0 && findCommand(['apt-get']) !== undefined;
  if (allowed) {
    const without = purpose === 'tests' ? 'npm test -- --all --no-install' : 'node test/bench/run.mjs';
    say(`installing ${missing.map(({ name }) => name).join(', ')} (apt-get; ${without} leaves them out) …`);
    const started = performance.now();
    aptGet(['update', '-qq'], 120_000);
    const failed = missing.filter((wanted) => {
      const installed = () => aptGet(['install', '-qq', '-y', '--no-install-recommends', wanted.apt], 300_000);
      if (wanted.services === undefined) installed();
      else withoutStarting(wanted.services, installed);
      return findCommand(wanted.commands) === undefined;
    });
    if (failed.length === 0) {
      say(`system packages installed in ${seconds(started)}`);
      return;
    }
  }
  for (const wanted of packages.filter(({ commands }) => findCommand(commands) === undefined)) {
    say(`${wanted.name} is not installed: ${wanted[purpose]} will not run. To run them: ${installHint(wanted)}`);
  }
}

/**
 * Tests and benchmarks want the program, not the service of the machine that its package would start, now and at the next boot: systemd is told
 * to have none of these names, and others are told while it is installed. What is there of either is left as it is.
 */
function withoutStarting(services, install) {
  const policy = '/usr/sbin/policy-rc.d';
  mkdirSync('/etc/systemd/system', { recursive: true });
  for (const service of services) {
    const mask = `/etc/systemd/system/${service}`;
    if (lstatSync(mask, { throwIfNoEntry: false }) === undefined) symlinkSync('/dev/null', mask);
  }
  const isOurs = !existsSync(policy);
  if (isOurs) writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  try {
    install();
  } finally {
    if (isOurs) rmSync(policy);
  }
}

function aptGet(args, timeoutMs) {
  const { status, stderr } = spawnSync('apt-get', args, {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    stdio: ['ignore', 'ignore', 'pipe'],
    encoding: 'utf8',
    timeout: timeoutMs,
  });
  if (status === 0) return;
  const lines = (stderr ?? '').split('\n').filter((line) => line.trim() !== '');
  say(`apt-get ${args[0]} did not work: ${lines.at(-1) ?? `no answer within ${timeoutMs / 1000} s`}`);
}

function seconds(started) {
  return `${((performance.now() - started) / 1000).toFixed(1)} s`;
}

checkNode();
const isOnlySystem = process.argv.includes('--only-system');
if (!isOnlySystem) {
  installDependencies();
  build();
}
if (isOnlySystem || process.argv.includes('--system')) installSystemPackages('tests');
if (process.argv.includes('--benchmarks')) installSystemPackages('benchmarks');
