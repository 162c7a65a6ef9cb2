import { expect, it } from 'vitest';
import { packagesFor } from '../../../scripts/system-packages.mjs';

const names = (/** @type {'tests' | 'benchmarks'} */ purpose) => packagesFor(purpose).map(({ name }) => name);

it('benchmarks get the proxies and the databases that they measure, and no program that only tests use', () => {
  expect(names('benchmarks')).toEqual(['HAProxy', 'MariaDB', 'nginx', 'PostgreSQL']);
});

it('tests get no program that only benchmarks use', () => {
  expect(names('tests')).toEqual(expect.arrayContaining(['Chromium', 'MariaDB', 'PostgreSQL']));
  expect(names('tests')).not.toContain('HAProxy');
  expect(names('tests')).not.toContain('nginx');
});
