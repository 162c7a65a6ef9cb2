import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';

const root = join(import.meta.dirname, '../../..');
const textOf = (/** @type {string} */ path) => readFileSync(join(root, path), 'utf8');
const { scripts } = JSON.parse(textOf('package.json'));
const checks = [...textOf('scripts/check.mjs').matchAll(/name: '([a-z-]+)'/g)].map(([, name]) => name);
const files = readdirSync(join(root, '.github/workflows'));
const workflows = files.map((file) => ({ file, ...parse(textOf(`.github/workflows/${file}`)) }));
const nodes = /const nodes = \[([^\]]+)\]/.exec(textOf('scripts/matrix.mjs'))?.[1]?.split(', ').map(Number);

describe.each(workflows)('the workflow $file', ({ file, permissions, jobs }) => {
  const steps = Object.values(jobs).flatMap(({ steps }) => steps);

  test('may only read the repository, unless a job asks for more', () => {
    expect(permissions).toEqual({ contents: 'read' });
  });

  test('pins the actions of others by digest, or says that it must', () => {
    const uses = [...textOf(`.github/workflows/${file}`).matchAll(/uses: (.*)/g)].map(([, action]) => action);
    const isPinned = /@[0-9a-f]{40} # v\d+\.\d+\.\d+$|@v\d+\.\d+\.\d+ # TODO: pin /;
    expect(uses.filter((action) => !isPinned.test(action ?? ''))).toEqual([]);
  });

  test('runs code of dependencies only in jobs that may write nothing and get no identity', () => {
    const runsTheirCode = (/** @type {{ run?: string }} */ { run = '' }) => /npm (ci|install|test|run)\b/.test(run);
    const trusted = Object.values(jobs).filter((job) => Object.values(job.permissions ?? {}).includes('write'));
    expect(trusted.flatMap((job) => job.steps).filter(runsTheirCode)).toEqual([]);
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

test('the proofs of the night exist', () => {
  const proofs = workflows.find(({ file }) => file === 'nightly.yml')?.jobs.proofs.strategy.matrix.proof;
  const known = [...textOf('scripts/proof.mjs').matchAll(/^ {4}'?([a-z0-9-]+)'?: \{/gm)].map(([, name]) => name);
  expect(known).toEqual(expect.arrayContaining(proofs));
});

test('Linux runs every check with each supported Node.js, and the matrix of peers too', () => {
  const matrixOf = (/** @type {string} */ name, /** @type {string} */ job) =>
    workflows.find(({ file }) => file === name)?.jobs[job].strategy.matrix.node;
  expect(matrixOf('test.yml', 'linux')).toEqual(nodes);
  expect(matrixOf('nightly.yml', 'peers')).toEqual(nodes);
});
