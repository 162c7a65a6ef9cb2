import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const { packages } = JSON.parse(readFileSync(join(import.meta.dirname, '../../../package-lock.json'), 'utf8'));
const entries = Object.entries(packages).filter(([path]) => path !== '');

/** Whether `name`, required from the package at `path`, has an entry. @param {string} path @param {string} name @returns {boolean} */
const isReachable = (path, name) =>
  packages[`${path === '' ? '' : `${path}/`}node_modules/${name}`] !== undefined ||
  (path !== '' && isReachable(path.slice(0, Math.max(0, path.lastIndexOf('node_modules/') - 1)), name));

test('npm ci accepts the lockfile on every platform: npm leaves out optional packages that a registry could not serve', () => {
  const missing = entries.flatMap(([path, { optionalDependencies = {} }]) =>
    Object.entries(optionalDependencies).filter(([name, version]) => /^\d/.test(version) && !isReachable(path, name)),
  );
  expect(missing).toEqual([]);
});

test('npm verifies every package that it downloads, from any registry', () => {
  expect(entries.filter(([, { integrity, link }]) => link !== true && integrity === undefined)).toEqual([]);
  expect(entries.filter(([, { resolved }]) => resolved !== undefined)).toEqual([]);
});
