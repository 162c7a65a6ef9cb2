/** That the lint rules on imports, time and chance really catch what they forbid, and let pass what they allow. */
import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { rules } from '../../../scripts/lint/modules.mjs';

const root = join(import.meta.dirname, '../../..');

const direction = 'lint/style/noRestrictedImports';
const cycle = 'lint/suspicious/noImportCycles';
const undeclared = 'lint/correctness/noUndeclaredDependencies';
const globals = 'lint/style/noRestrictedGlobals';
const plugin = 'plugin';

/** One file each: where it lies, what it says, and the rules that must speak (none: it must pass). */
const cases = {
  'errors stand alone': ['src/errors.ts', `import './runtime/clock.js';`, [direction]],
  'runtime may use errors': ['src/runtime/a.ts', `import '../errors.js';\nimport 'node:util';`, []],
  'runtime knows no endpoint': ['src/runtime/b.ts', `import '../endpoint/endpoint.js';`, [direction]],
  'endpoint knows no observer': ['src/endpoint/a.ts', `import '../observe/observer.js';`, [direction]],
  'a type-only import counts': [
    'src/endpoint/b.ts',
    `import type { A } from '../pool/pool.js';\nexport type B = A;`,
    [direction],
  ],
  'an inline type counts': ['src/endpoint/c.ts', `export type { A } from '../pool/pool.js';`, [direction]],
  'a re-export counts': ['src/endpoint/d.ts', `export * from '../stage/stage.js';`, [direction]],
  'a dynamic import counts': [
    'src/endpoint/e.ts',
    `export const later = () => import('../pool/pool.js');`,
    [direction],
  ],
  'an import type is not seen, hence denied': [
    'src/endpoint/f.ts',
    `export type A = import('../pool/pool.js').A;`,
    [plugin],
  ],
  'observe may use endpoint': ['src/observe/a.ts', `import '../endpoint/endpoint.js';`, []],
  'stages and loads do not know each other': ['src/stage/a.ts', `import '../load/load.js';`, [direction]],
  'stages do not import the pool': ['src/stage/b.ts', `import '../pool/pool.js';`, [direction]],
  'loads do not import resolvers': ['src/load/a.ts', `import '../resolver/resolver.js';`, [direction]],
  'the pool may use stages and loads': ['src/pool/a.ts', `import '../stage/stage.js';\nimport '../load/load.js';`, []],
  'the pool knows no picker': ['src/pool/b.ts', `import '../picker/picker.js';`, [direction]],
  'pickers may use the pool': ['src/picker/a.ts', `import '../pool/pool.js';`, []],
  'pickers know no balancer': ['src/picker/b.ts', `import '../balancer/balancer.js';`, [direction]],
  'retry knows no balancer': ['src/retry/a.ts', `import '../balancer/balancer.js';`, [direction]],
  'the balancer may use all below': ['src/balancer/a.ts', `import '../retry/a.js';\nimport '../picker/a.js';`, []],
  'the core does not import its own entry point': ['src/balancer/b.ts', `import '../index.js';`, [direction]],
  'the core imports no package': ['src/balancer/c.ts', `import 'undici';`, [direction]],
  'Kubernetes is loaded when needed': [
    'src/resolver/a.ts',
    `export const later = () => import('./kubernetes/a.js');`,
    [],
  ],
  'and not before': ['src/resolver/b.ts', `export { a } from './kubernetes/a.js';`, [plugin]],
  'its types may be named': ['src/resolver/c.ts', `export type { A } from './kubernetes/a.js';`, []],
  'what reads the API may use its peer': ['src/resolver/kubernetes/api/b.ts', `import '@kubernetes/client-node';`, []],
  'the Kubernetes entry point knows no pool': [
    'src/resolver/kubernetes/c.ts',
    `import '../../pool/pool.js';`,
    [direction],
  ],
  'the main entry point holds no adapter': ['src/index.ts', `export * from './adapter/undici/a.js';`, [direction]],
  'adapters use the main entry point and their peer': [
    'src/adapter/undici/b.ts',
    `import '../../index.js';\nimport 'undici';`,
    [],
  ],
  'adapters do not reach inside': ['src/adapter/undici/c.ts', `import '../../pool/pool.js';`, [direction]],
  'adapters do not share code': ['src/adapter/undici/d.ts', `import '../node-http/a.js';`, [direction]],
  'a package must be a declared peer': ['src/adapter/undici/e.ts', `import 'nock';`, [undeclared]],
  'testing may use the core': ['src/testing/a.ts', `import '../pool/pool.js';\nsetTimeout(() => {}, 1);`, []],
  'testing uses no adapter': ['src/testing/b.ts', `import '../adapter/undici/a.js';`, [direction]],
  'no cycle, not even of types': ['src/pool/one.ts', `import type { B } from './two.js';\nexport type A = B;`, [cycle]],
  '(its other half)': ['src/pool/two.ts', `import type { A } from './one.js';\nexport type B = A;`, [cycle]],
  'no Date.now': ['src/pool/c.ts', `export const now = Date.now();`, [plugin]],
  'nor as a value': ['src/pool/d.ts', `export const clock = { now: Date.now };`, [plugin]],
  'no new Date': ['src/pool/e.ts', `export const today = new Date();`, [plugin]],
  'no Math.random': ['src/stage/c.ts', `export const chance = Math.random();`, [plugin]],
  'other Math is fine': ['src/stage/d.ts', `export const half = Math.floor(2.5);`, []],
  'no setTimeout': ['src/pool/f.ts', `setTimeout(() => {}, 1);`, [globals]],
  'no setInterval': ['src/adapter/undici/f.ts', `setInterval(() => {}, 1);`, [globals]],
  'no setImmediate': ['src/pool/g.ts', `setImmediate(() => {});`, [globals]],
  'no performance.now': ['src/pool/h.ts', `export const now = performance.now();`, [globals]],
  'nor through globalThis': ['src/pool/i.ts', `globalThis.setTimeout(() => {}, 1);`, [plugin]],
  'runtime is where they live': [
    'src/runtime/c.ts',
    `export const now = Date.now() + Math.random() + performance.now();`,
    [],
  ],
};

describe('lint rules', () => {
  /** @type {Map<string, Set<string>>} */
  const found = new Map();
  /** @type {string} */
  let folder;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'evenkeel-lint-'));
    for (const name of ['biome.json', 'package.json', '.gitignore']) cpSync(join(root, name), join(folder, name));
    cpSync(join(root, 'scripts/lint'), join(folder, 'scripts/lint'), { recursive: true });
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction');
    for (const [file, source] of Object.values(cases)) {
      mkdirSync(dirname(join(folder, String(file))), { recursive: true });
      writeFileSync(join(folder, String(file)), `${source}\n`);
    }
    const biome = join(root, 'node_modules/@biomejs/biome/bin/biome');
    const args = [biome, 'lint', 'src', '--reporter=github', '--max-diagnostics=none'];
    let output = '';
    try {
      output = execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8', stdio: 'pipe' });
    } catch (error) {
      output = /** @type {{ stdout: string }} */ (error).stdout;
    }
    for (const [, rule, file] of output.matchAll(/title=([^,]+),file=(?:[^,]*?\/)?(src\/[^,]+),/g)) {
      found.set(String(file), (found.get(String(file)) ?? new Set()).add(String(rule)));
    }
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test.each(Object.entries(cases))('%s', (_name, [file, , rules]) => {
    expect([...(found.get(String(file)) ?? [])]).toEqual(rules);
  });
});

test('every module of src has a rule about what it may import', () => {
  const { overrides } = JSON.parse(readFileSync(join(root, 'scripts/lint/modules.json'), 'utf8'));
  const ruled = overrides
    .filter((/** @type {any} */ { linter }) => linter?.rules?.style?.noRestrictedImports !== undefined)
    .flatMap((/** @type {any} */ { includes }) => includes);
  // The command line comes last and may import everything.
  const free = ['cli'];
  for (const entry of readdirSync(join(root, 'src'), { withFileTypes: true })) {
    if (free.includes(entry.name)) continue;
    expect(ruled).toContain(entry.isDirectory() ? `src/${entry.name}/**` : `src/${entry.name}`);
  }
});

test('the rules name only modules that exist', () => {
  const text = readFileSync(join(root, 'scripts/lint/modules.json'), 'utf8');
  const modules = [...text.matchAll(/"src\/([a-z-]+)\/\*\*"/g)].map(([, module]) => String(module));
  expect(modules.filter((module) => !existsSync(join(root, 'src', module)))).toEqual([]);
});

test("the linter's configuration is up to date with the table (else: node scripts/lint/modules.mjs)", () => {
  expect(JSON.parse(readFileSync(join(root, 'scripts/lint/modules.json'), 'utf8'))).toEqual(rules);
});
