/**
 * The own tests of client libraries with `--require evenkeel/register` in the environment of a pod, beside the same without it. The same
 * tests are to pass and to fail: their hosts are this machine, and no Services. With --services they are Services, of one pod each.
 *
 *   npm run proof -- suites                      all of them: git, npm with a registry, an hour
 *   npm run proof -- suites axios got            some
 *   npm run proof -- suites --from <folder>      takes their sources from there, a folder each, already installed
 *   npm run proof -- suites --runs 3             how often each runs, in turns; 2 by default
 *   npm run proof -- suites --services           with register and with localhost as a Service, beside without register
 *
 * A test differs if it fails every time in one way and never in the other. What fails now and then is counted apart: it says more of the
 * machine than of register.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { layOut } from '../../../../scripts/pack.mjs';
import { table } from '../../../bench/lib/table.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const root = join(here, '../../../..');
const GITHUB = 'https://github.com';
const MAX_OUTPUT = 1 << 28;
/** Milliseconds after which a run is ended that does not end by itself. */
const RUN_TIMEOUT_MS = 30 * 60_000;

const undiciFiles = [
  'test/*.js',
  ...['fetch', 'interceptors', 'eventsource', 'cookie', 'cache-interceptor'].map((folder) => `test/${folder}/*.js`),
  ...['websocket', 'node-test', 'node-fetch'].map((folder) => `test/${folder}/**/*.js`),
];
const undici = (tag) => ({
  source: ['nodejs/undici', tag],
  install: ['npm install --ignore-scripts', 'npm run generate-pem', 'npm run build:node'],
  prepare: (folder) => loadByName('undici', folder, { entry: '.', tests: 'test' }),
  test: [
    'node',
    '--expose-gc',
    '--test',
    '--test-concurrency=2',
    '--test-timeout=120000',
    '--test-reporter=tap',
    ...undiciFiles,
  ],
});

/** The projects: what is cloned, how it is installed, and the command that prints the results as TAP. */
const suites = {
  'node-fetch': {
    source: ['node-fetch/node-fetch', 'v3.1.1'],
    install: ['npm install --ignore-scripts'],
    test: ['npx', 'mocha', '--reporter', 'tap'],
  },
  axios: {
    source: ['axios/axios', 'v1.7.9'],
    install: ['npm ci --ignore-scripts'],
    test: ['npx', 'mocha', 'test/unit/**/*.js', '--timeout', '30000', '--exit', '--reporter', 'tap'],
  },
  got: {
    source: ['sindresorhus/got', 'v15.0.5'],
    install: ['npm install --ignore-scripts'],
    nodeOptions: '--import=tsx/esm',
    test: ['npx', 'ava', '--tap'],
  },
  undici8: undici('v8.10.0'),
  undici7: undici('v7.29.0'),
  grpc: {
    source: ['grpc/grpc-node', '@grpc/grpc-js@1.14.3'],
    folder: 'packages/grpc-js',
    install: ['npm install --ignore-scripts', 'npm run prepare'],
    prepare: (folder) => loadByName('@grpc/grpc-js', folder, { entry: 'build/src', tests: 'build/test' }),
    env: { GRPC_EXPERIMENTAL_ENABLE_OUTLIER_DETECTION: 'true' },
    test: ['npx', 'mocha', '--exit', '--require', 'ts-node/register', 'build/test/**/*.js', '--reporter', 'tap'],
  },
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    from: { type: 'string' },
    runs: { type: 'string', default: '2' },
    services: { type: 'boolean', default: false },
  },
});
const runs = Number(values.runs);
const home = resolve(values.from ?? join(tmpdir(), 'evenkeel-suites'));

/** @returns the folder in which the tests run */
function sourcesOf(name, { source: [repository, tag], folder = '.', install, prepare }) {
  const clone = join(home, name);
  const inside = join(clone, folder);
  if (!existsSync(join(inside, 'node_modules'))) {
    if (values.from !== undefined) throw new Error(`${inside} is not installed`);
    mkdirSync(home, { recursive: true });
    shell(
      home,
      `git clone --quiet --depth 1 --branch ${tag} --recurse-submodules --shallow-submodules ${GITHUB}/${repository} ${name}`,
    );
    for (const command of install) shell(inside, command);
  }
  prepare?.(inside);
  // Where an app has it, beside its own undici.
  const evenkeel = join(inside, 'node_modules', 'evenkeel');
  rmSync(evenkeel, { recursive: true, force: true });
  mkdirSync(evenkeel);
  layOut(evenkeel);
  const undiciHere = join(inside, 'node_modules', 'undici');
  if (!existsSync(undiciHere)) symlinkSync(join(root, 'node_modules', 'undici'), undiciHere);
  return { folder: inside, register: join(evenkeel, 'dist/register/register.cjs') };
}

/** The tests of a library load it by its name, as an app does, so that register finds it; so does evenkeel. */
function loadByName(name, folder, { entry, tests }) {
  const link = join(folder, 'node_modules', name);
  rmSync(link, { recursive: true, force: true });
  mkdirSync(dirname(link), { recursive: true });
  symlinkSync(folder, link);
  const main = resolve(folder, entry);
  const spellings = [main, join(main, 'index'), join(main, 'index.js')];
  for (const file of readdirSync(join(folder, tests), { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.js')) continue;
    const path = join(folder, tests, file);
    const text = readFileSync(path, 'utf8');
    const named = text.replaceAll(/require\(['"](\.[^'"]*)['"]\)/g, (all, imported) =>
      spellings.includes(resolve(dirname(path), imported)) ? `require('${name}')` : all,
    );
    if (named !== text) writeFileSync(path, named);
  }
}

function shell(cwd, command) {
  process.stderr.write(`${command}\n`);
  const { status, stderr } = spawnSync(command, { cwd, shell: true, encoding: 'utf8', maxBuffer: MAX_OUTPUT });
  if (status !== 0) throw new Error(`${command} failed: ${stderr}`);
}

/** How often each test passed and failed in one run, by its name. @returns {Map<string, { passed: number, failed: number }>} */
function run({ nodeOptions = '', env = {}, test: [command, ...args] }, { folder, register }, isRegistered) {
  const registered = {
    KUBERNETES_SERVICE_HOST: '127.0.0.1',
    KUBERNETES_SERVICE_PORT: '1',
    ...(values.services && { EVENKEEL_SERVICES: 'localhost', EVENKEEL_CONFIG: servicesOf(folder) }),
  };
  const { stdout } = spawnSync(command, args, {
    cwd: folder,
    encoding: 'utf8',
    maxBuffer: MAX_OUTPUT,
    timeout: RUN_TIMEOUT_MS,
    env: {
      ...process.env,
      ...env,
      CI: '1',
      FORCE_COLOR: '0',
      ...(isRegistered && registered),
      NODE_OPTIONS: `${isRegistered ? `--require=${register} ` : ''}${nodeOptions}`,
    },
  });
  const results = new Map();
  for (const [, not, name] of stdout.matchAll(/^ *(not )?ok \d+ (?:- )?(.*)$/gm)) {
    const title = String(name).replace(/ # (?:time|duration|SKIP|TODO).*| \(?[\d.]+m?s\)?$/g, '');
    const result = results.get(title) ?? { passed: 0, failed: 0 };
    if (not === undefined) result.passed++;
    else result.failed++;
    results.set(title, result);
  }
  return results;
}

/** A copy beside the suite's own evenkeel, which it loads. */
function servicesOf(folder) {
  const path = join(folder, 'node_modules', 'evenkeel-services.cjs');
  writeFileSync(path, readFileSync(join(here, 'services.cjs')));
  return path;
}

const sum = (results, kind) => [...results.values()].reduce((total, result) => total + result[kind], 0);
const wanted = Object.entries(suites).filter(([name]) => positionals.length === 0 || positionals.includes(name));
const rows = [];
const differences = [];
for (const [name, suite] of wanted) {
  const place = sourcesOf(name, suite);
  /** @type {Map<string, { passed: number, failed: number }>[][]} */
  const byWay = [[], []];
  for (let count = 0; count < runs; count++) {
    for (const [way, results] of byWay.entries()) {
      results.push(run(suite, place, way === 1));
      const last = results.at(-1);
      process.stderr.write(
        `${name}, ${way === 1 ? 'with' : 'without'}: ${sum(last, 'failed')} failed, ${sum(last, 'passed')} passed\n`,
      );
    }
  }
  const titles = new Set(byWay.flat().flatMap((results) => [...results.keys()]));
  let unsteady = 0;
  let differing = 0;
  for (const title of titles) {
    const [without, withIt] = byWay.map((results) => results.map((result) => result.get(title)?.failed ?? 0));
    if ([...without, ...withIt].every((failed) => failed === without[0])) continue;
    if (Math.min(...withIt) > Math.max(...without) || Math.max(...withIt) < Math.min(...without)) {
      differing++;
      differences.push(`${name}: ${title}: failed ${without.join(', ')} without, ${withIt.join(', ')} with`);
    } else unsteady++;
  }
  const failed = byWay.map((results) => results.map((result) => sum(result, 'failed')).join(', '));
  const all = sum(byWay[0][0], 'failed') + sum(byWay[0][0], 'passed');
  rows.push([
    `${name} ${suite.source[1].replace(/^.*[v@]/, '')}`,
    String(all),
    ...failed,
    String(differing),
    String(unsteady),
  ]);
}
console.log(table(['tests of', 'tests', 'failed without', 'failed with', 'differ', 'now and then'], rows));
for (const difference of differences) console.log(difference);
process.exitCode = differences.length === 0 ? 0 : 1;
