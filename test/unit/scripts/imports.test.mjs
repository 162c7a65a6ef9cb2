/** That the check of imports, time and chance catches what it forbids, and lets pass what it allows. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { importProblems, rooms } from '../../../scripts/imports.mjs';

const src = join(import.meta.dirname, '../../../src');

/** A file, what it says, and the problem it has; none if it passes. @type {[title: string, file: string, source: string, problem?: string][]} */
const cases = [
  ['errors stand alone', 'errors', `import './runtime/clock.js';`, 'errors may not import runtime/clock'],
  ['runtime may use errors', 'runtime/a', `import '../errors.js';\nimport 'node:util';`],
  ['runtime knows no endpoint', 'runtime/a', `import '../endpoint/endpoint.js';`, 'may not'],
  ['endpoint knows no observer', 'endpoint/a', `import '../observe/observer.js';`, 'may not'],
  ['a type-only import counts', 'endpoint/a', `import type { A } from '../pool/pool.js';`, 'may not'],
  ['an inline type counts', 'endpoint/a', `export type { A } from '../pool/pool.js';`, 'may not'],
  ['a re-export counts', 'endpoint/a', `export * from '../stage/stage.js';`, 'may not'],
  ['a dynamic import counts', 'endpoint/a', `export const later = () => import('../pool/pool.js');`, 'may not'],
  ['an import type is refused', 'endpoint/a', `export type A = import('../observe/a.js').A;`, 'import statement'],
  ['require() is refused', 'endpoint/a', `const a = require('../pool/pool.js');`, 'import statement'],
  ['createRequire() is refused', 'endpoint/a', `const load = createRequire(import.meta.url);`, 'import statement'],
  ['observe may use endpoint', 'observe/a', `import '../endpoint/endpoint.js';`],
  ['stages and loads do not know each other', 'stage/a', `import '../load/load.js';`, 'may not'],
  ['stages do not import the pool', 'stage/a', `import '../pool/pool.js';`, 'may not'],
  ['loads do not import resolvers', 'load/a', `import '../resolver/resolver.js';`, 'may not'],
  ['the pool may use stages and loads', 'pool/a', `import '../stage/stage.js';\nimport '../load/load.js';`],
  ['the pool knows no picker', 'pool/a', `import '../picker/picker.js';`, 'may not'],
  ['pickers may use the pool', 'picker/a', `import '../pool/pool.js';`],
  ['pickers know no balancer', 'picker/a', `import '../balancer/balancer.js';`, 'may not'],
  ['retry knows no balancer', 'retry/a', `import '../balancer/balancer.js';`, 'may not'],
  ['the balancer may use all below', 'balancer/a', `import '../retry/a.js';\nimport '../picker/a.js';`],
  ['the core does not import its own entry point', 'balancer/a', `import '../index.js';`, 'may not'],
  ['the core imports no package', 'balancer/a', `import 'undici';`, 'balancer may not import the package undici'],
  ['Kubernetes is loaded when needed', 'resolver/a', `export const later = () => import('./kubernetes/a.js');`],
  ['and not before', 'resolver/a', `export { a } from './kubernetes/a.js';`, 'may not'],
  ['its types may be named', 'resolver/a', `export type { A } from './kubernetes/a.js';`],
  ['the command line may load a kubeconfig', 'cli/a', `import '@kubernetes/client-node';`],
  ['and nothing else', 'resolver/kubernetes/api/a', `import '@kubernetes/client-node';`, 'package'],
  ['the Kubernetes entry point knows no pool', 'resolver/kubernetes/a', `import '../../pool/pool.js';`, 'may not'],
  ['the main entry point holds no adapter', 'index', `export * from './adapter/undici/a.js';`, 'may not'],
  [
    'adapters use the main entry point and their peer',
    'adapter/undici/a',
    `import '../../index.js';\nimport 'undici';`,
  ],
  ['adapters use no other peer', 'adapter/undici/a', `import 'pg';`, 'package pg'],
  ['adapters do not reach inside', 'adapter/undici/a', `import '../../pool/pool.js';`, 'may not'],
  ['adapters do not share code', 'adapter/undici/a', `import '../node-http/a.js';`, 'may not'],
  ['a package must be a peer', 'adapter/undici/a', `import 'nock';`, 'package nock'],
  ['the server shares single files', 'server/a', `import '../call/waiting-room.js';`],
  ['and no others of their folder', 'server/a', `import '../call/attempts.js';`, 'may not'],
  ['testing may use the core', 'testing/a', `import '../pool/pool.js';\nsetTimeout(() => {}, 1);`],
  ['testing uses no adapter', 'testing/a', `import '../adapter/undici/a.js';`, 'may not'],
  ['no Date.now', 'pool/a', `export const now = Date.now();`, 'Date.now'],
  ['nor as a value', 'pool/a', `export const clock = { now: Date.now };`, 'Date.now'],
  ['no new Date', 'pool/a', `export const today = new Date();`, 'Date'],
  ['no Math.random', 'stage/a', `export const chance = Math.random();`, 'Math.random'],
  ['other Math is fine', 'stage/a', `export const half = Math.floor(2.5);`],
  ['no setTimeout', 'pool/a', `setTimeout(() => {}, 1);`, 'setTimeout'],
  ['no setInterval', 'adapter/undici/a', `setInterval(() => {}, 1);`, 'setInterval'],
  ['no setImmediate', 'pool/a', `setImmediate(() => {});`, 'setImmediate'],
  ['no performance.now', 'pool/a', `export const now = performance.now();`, 'performance'],
  ['nor through globalThis', 'pool/a', `globalThis.setTimeout(() => {}, 1);`, 'setTimeout'],
  ['a property of that name is fine', 'pool/a', `export const set = (socket: Socket) => socket.setTimeout(1);`],
  ['runtime is where they live', 'runtime/a', `export const now = Date.now() + Math.random() + performance.now();`],
  ['a new folder needs a line in the table', 'attic/a', `import '../errors.js';`, 'has no line in the table'],
];

describe('imports', () => {
  test.each(cases)('%s', (_title, file, source, problem) => {
    const problems = importProblems(new Map([[file, source]]));
    if (problem === undefined) expect(problems).toEqual([]);
    else expect(problems).toEqual([expect.stringContaining(problem)]);
  });

  test('a circle is found, even of types', () => {
    const files = {
      'pool/one': `import type { B } from './two.js';`,
      'pool/two': `export type { A } from './one.js';`,
    };
    expect(importProblems(new Map(Object.entries(files)))).toEqual([
      'src/pool/one.ts: a circle of imports: pool/one → pool/two → pool/one',
    ]);
  });
});

test('every folder and file of src has a line in the table, and every line a folder or file', () => {
  const names = rooms.map(({ name }) => name);
  const entries = readdirSync(src).map((entry) => entry.replace(/\.ts$/, ''));
  expect(entries.filter((entry) => !names.some((name) => name === entry || name.startsWith(`${entry}/`)))).toEqual([]);
  expect(names.filter((name) => !existsSync(join(src, name)) && !existsSync(join(src, `${name}.ts`)))).toEqual([]);
});
