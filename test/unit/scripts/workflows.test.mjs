import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';

const root = join(import.meta.dirname, '../../..');
const textOf = (/** @type {string} */ path) => readFileSync(join(root, path), 'utf8');
const { scripts } = JSON.parse(textOf('package.json'));
const checks = [...textOf('scripts/check.mjs').matchAll(/name: '([a-z-]+)'|suite\('([a-z]+)'/g)].map(
  ([, a, b]) => a ?? b,
);
const files = readdirSync(join(root, '.github/workflows'));
const workflows = files.map((file) => ({ file, ...parse(textOf(`.github/workflows/${file}`)) }));
const nodes = /const nodes = \[([^\]]+)\]/.exec(textOf('scripts/matrix.mjs'))?.[1]?.split(', ').map(Number);

describe.each(workflows)('the workflow $file', ({ permissions, jobs }) => {
  const steps = Object.values(jobs).flatMap(({ steps }) => steps);

  test('may only read the repository, unless a job asks for more', () => {
    expect(permissions).toEqual({ contents: 'read' });
  });

  test('has a timeout for every job', () => {
    for (const [name, job] of Object.entries(jobs)) expect(job['timeout-minutes'], name).toBeGreaterThan(0);
  });

  test('names scripts and checks that exist', () => {
    const commands = steps.flatMap(({ run = '' }) => run.split('\n'));
    const named = commands.flatMap((line) => [...line.matchAll(/npm run ([\w:-]+)/g)].map(([, name]) => name));
    expect(named.filter((name) => !(name in scripts))).toEqual([]);
    const tests = commands.flatMap((line) => /npm test -- (.*)/.exec(line)?.[1]?.split(' ') ?? []);
    expect(tests.filter((name) => !['--all', '--no-install'].includes(name) && !checks.includes(name))).toEqual([]);
  });
});

test('Linux runs every check with each supported Node.js, and the matrix of peers too', () => {
  const matrixOf = (/** @type {string} */ name, /** @type {string} */ job) =>
    workflows.find(({ file }) => file === name)?.jobs[job].strategy.matrix.node;
  expect(matrixOf('test.yml', 'linux')).toEqual(nodes);
  expect(matrixOf('nightly.yml', 'peers')).toEqual(nodes);
});
