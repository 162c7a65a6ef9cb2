/**
 * Keeps package-lock.json fit for `npm ci` on every machine. npm leaves out optional packages a registry could not serve
 * when the lockfile was written (builds for other platforms, mostly), and then refuses that very lockfile.
 *
 *   node scripts/lockfile.mjs           says what is wrong
 *   node scripts/lockfile.mjs --fix     adds the entries and hashes that are missing
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * @typedef {{ version?: string, resolved?: string, integrity?: string, link?: boolean, optionalDependencies?: Record<string, string>, dev?: boolean }} LockedPackage
 * @typedef {Record<string, LockedPackage>} LockedPackages
 */

/** Exact optional dependencies without an entry. @param {LockedPackages} packages */
export function missingEntries(packages) {
  const missing = [];
  for (const [path, { optionalDependencies = {}, dev }] of Object.entries(packages)) {
    for (const [name, version] of Object.entries(optionalDependencies)) {
      if (/^\d/.test(version) && !isReachable(packages, path, name)) missing.push({ name, version, dev: dev === true });
    }
  }
  return missing;
}

/** Whether `name`, required from the package at `path`, has an entry. @param {LockedPackages} packages @param {string} path @param {string} name */
function isReachable(packages, path, name) {
  for (let folder = path; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('node_modules/') - 1))) {
    if (packages[`${folder === '' ? '' : `${folder}/`}node_modules/${name}`] !== undefined) return true;
    if (folder === '') return false;
  }
}

/** Entries that say where they were downloaded from. @param {LockedPackages} packages */
export function recordedAddresses(packages) {
  return Object.entries(packages)
    .filter(([, { resolved }]) => resolved !== undefined)
    .map(([path]) => path);
}

/** Entries whose download npm could not verify. @param {LockedPackages} packages */
export function missingHashes(packages) {
  return Object.entries(packages)
    .filter(([path, { integrity, link }]) => path !== '' && link !== true && integrity === undefined)
    .map(([path]) => path);
}

/** The hash the registry publishes for a package. @param {string} path such as `node_modules/undici` @param {string} version */
function publishedHash(path, version) {
  const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
  return execFileSync('npm', ['view', `${name}@${version}`, 'dist.integrity'], { encoding: 'utf8' }).trim();
}

/** The platform a package is built for, from its name, such as `cli-linux-x64-musl`. @param {string} name */
export function platformOf(name) {
  const match = /-(android|darwin|linux|win32|freebsd)-(arm64|x64|arm|ia32|ppc64|s390x|riscv64)(?:-(musl|gnu))?/.exec(
    name,
  );
  if (match === null) return undefined;
  const [, os, cpu, libc] = match;
  return { os: [os], cpu: [cpu], ...(libc && { libc: [libc === 'musl' ? 'musl' : 'glibc'] }) };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const file = join(dirname(dirname(fileURLToPath(import.meta.url))), 'package-lock.json');
  const lock = JSON.parse(readFileSync(file, 'utf8'));
  const missing = missingEntries(lock.packages);
  const unknown = missing.filter(({ name }) => platformOf(name) === undefined);
  for (const path of recordedAddresses(lock.packages)) console.error(`${path} records a download address`);
  for (const { name, version } of missing) console.error(`${name}@${version} has no entry`);
  for (const path of missingHashes(lock.packages)) console.error(`${path} has no integrity`);
  if (process.argv.includes('--fix') && unknown.length === 0) {
    for (const { name, version, dev } of missing) {
      lock.packages[`node_modules/${name}`] = { version, ...(dev && { dev }), optional: true, ...platformOf(name) };
    }
    for (const path of missingHashes(lock.packages)) {
      const { version, ...rest } = lock.packages[path];
      lock.packages[path] = { version, integrity: publishedHash(path, version), ...rest };
    }
    for (const path of recordedAddresses(lock.packages)) delete lock.packages[path].resolved;
    const sorted = Object.entries(lock.packages).sort(([a], [b]) => a.localeCompare(b, 'en'));
    lock.packages = Object.fromEntries(sorted);
    writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
    console.log('package-lock.json mended');
  } else {
    const wrong = [...missing, ...recordedAddresses(lock.packages), ...missingHashes(lock.packages)];
    process.exitCode = wrong.length === 0 ? 0 : 1;
  }
}
