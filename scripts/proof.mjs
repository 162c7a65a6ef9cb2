/**
 * What is promised, at full counts: the same tests that `npm test` runs at small ones, and programs that compare. Figures are printed.
 * Best on a machine with nothing else to do.
 *
 *   npm run proof                      lists them
 *   npm run proof -- http              one of them
 *   npm run proof -- http kill drain   only those of its files
 *   npm run proof -- overload 5        programs take arguments of their own
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { buildIfChanged } from './build.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));

/** @typedef {{ what: string, folder: string, files: readonly string[], flags?: readonly string[] }} Tests */
/** @typedef {{ what: string, program: readonly string[] }} Program */

const slow = ['--project=integration', '--testTimeout=300000'];

/** @type {ReadonlyMap<string, Tests | Program>} */
const proofs = new Map(
  Object.entries({
    core: {
      what: 'what 100,000 endpoints that come and go leave behind; 2 minutes',
      folder: 'test/integration/core',
      files: ['lifetime'],
    },
    kubernetes: {
      what: 'three hundred watches that are cut or corrupted anywhere; seconds',
      folder: 'test/integration/kubernetes',
      files: ['streams'],
    },
    http: {
      what: 'undici and fetch: rolling updates, kills, keep-alive, faults; half an hour',
      folder: 'test/integration/undici',
      files: [
        'rollout',
        'rollout-waits',
        'streams',
        'drain',
        'kill',
        'keep-alive',
        'recycled-address',
        'newcomer',
        'faults',
        'chaos',
        'amplification',
        'admission',
        'hang-up',
      ],
    },
    http2: {
      what: 'a rolling update over HTTP/2, on Node 22 with undici 8',
      program: ['scripts/matrix.mjs', '22', 'undici-8-h2-rollout'],
    },
    'node-http': {
      what: 'node:http: rolling updates, keep-alive, faults; a few minutes',
      folder: 'test/integration/node-http',
      files: ['rollout', 'rollout-waits', 'keep-alive', 'chaos'],
    },
    grpc: {
      what: 'gRPC: faults, a rolling update, connections that age',
      folder: 'test/integration/grpc-js',
      files: ['faults', 'rollout', 'connection-age'],
    },
    connect: {
      what: 'Connect over HTTP/2: a rolling update and a kill, 1,500 calls at once',
      folder: 'test/integration/http2',
      files: ['rollout', 'calls'],
      flags: slow,
    },
    'http2-rollout': {
      what: 'pods of h2c, Connect and gRPC that are replaced, send GOAWAY and are killed under 350 calls at once, beside stock; needs Node 22; 10 minutes',
      program: ['test/integration/http2/rollout-proof/main.mjs'],
    },
    mysql: {
      what: 'MariaDB: load, faults, servers at their limit of connections',
      folder: 'test/integration/mysql2',
      files: ['cluster-load', 'cluster-faults', 'max-connections'],
      flags: slow,
    },
    pg: { what: 'PostgreSQL: load and failover', folder: 'test/integration/pg', files: ['load', 'roles'], flags: slow },
    redis: { what: 'Redis: load and failover', folder: 'test/integration/redis', files: ['failures'], flags: slow },
    amqp: {
      what: '500 confirmed messages a second through a rolling restart of three RabbitMQ brokers; 7 minutes',
      folder: 'test/integration/amqp',
      files: ['rollout'],
    },
    websocket: {
      what: '1,000 WebSockets over 10 pods through a rolling update and a scale-out; 6 minutes',
      folder: 'test/integration/ws',
      files: ['rollout'],
    },
    burst: {
      what: 'up to 10,000 requests at once, cold and warm; scripts that end while calls run',
      folder: 'test/integration/scripts',
      files: ['burst', 'scripts'],
    },
    fuzz: {
      what: 'a million cases of each input somebody else writes; 10 minutes',
      folder: 'test/fuzz',
      files: ['slices', 'dns', 'reports', 'http-heads'],
      flags: ['--project=unit', '--reporter=verbose'],
    },
    playground: {
      what: 'npm start -- --once with the default, with round robin, and with all but MySQL at once; 2 minutes',
      folder: 'test/integration/playground',
      files: ['once'],
      flags: ['--project=playground'],
    },
    reproducible: {
      what: 'two builds of the same sources are the same bytes; a minute',
      folder: 'test/integration/package',
      files: ['reproducible'],
      flags: ['--project=package'],
    },
    bench: {
      what: 'what the benchmarks rest on: their pods, proxies and contenders; a minute',
      folder: 'test/integration/bench',
      files: ['pods', 'fleet'],
    },
    site: {
      what: 'the documentation as a site: builds it, checks its links, looks at it in Chromium; a minute',
      folder: 'test/integration/site',
      files: ['site'],
    },
    balancing: { what: 'the simulation at full counts', program: ['test/simulation/run.mjs', '--proof'] },
    overload: { what: 'an overload that ends, over sockets', program: ['test/integration/undici/overload-proof.mjs'] },
    loads: { what: 'loads compared over sockets', program: ['test/integration/undici/balance-proof.mjs'] },
    install: {
      what: 'the packed package, installed afresh with npm, pnpm and yarn; needs a registry; a minute',
      program: ['scripts/fresh-install.mjs'],
    },
    suites: {
      what: 'the own tests of axios, got, node-fetch, undici and grpc-js with register, beside without; needs git and a registry; an hour',
      program: ['test/integration/register/suites/proof.mjs'],
    },
    programs: {
      what: 'real programs (Next.js, Nest, Apollo …) with register, beside themselves without; needs a registry; 15 minutes',
      program: ['test/integration/register/programs/proof.mjs'],
    },
    workflows: {
      what: 'the workflows of the hosted CI by their published schema; needs a registry; seconds',
      program: ['scripts/workflows.mjs'],
    },
    shutdown: {
      what: 'pods that leave by gracefulShutdown, no preStop hook',
      program: ['test/integration/server/proof.mjs'],
    },
  }),
);

const [name, ...args] = process.argv.slice(2);
const proof = name === undefined ? undefined : proofs.get(name);
if (name === undefined || proof === undefined) {
  if (name !== undefined) console.error(`There is no proof ${name}.\n`);
  console.log('npm run proof -- <name> [file …]\n');
  for (const [each, { what }] of proofs) console.log(`  ${each.padEnd(10)} ${what}`);
  process.exit(name === undefined ? 0 : 2);
}
if (buildIfChanged().failed) process.exit(1);
process.exitCode = run('program' in proof ? [...proof.program, ...args] : vitestOf(proof));

/** @param {Tests} proof */
function vitestOf({ folder, files, flags = ['--project=integration'] }) {
  const unknown = args.filter((file) => !files.includes(file));
  if (unknown.length > 0) {
    console.error(`${name} has no file ${unknown.join(', ')}; it has ${files.join(', ')}`);
    process.exit(2);
  }
  const chosen = args.length > 0 ? args : files;
  return ['node_modules/vitest/vitest.mjs', 'run', ...flags, ...chosen.map((file) => `${folder}/${file}.test.ts`)];
}

/** @param {readonly string[]} command */
function run(command) {
  const env = { ...process.env, EVENKEEL_PROOF: '1' };
  return spawnSync(process.execPath, command, { cwd: root, env, stdio: 'inherit' }).status ?? 1;
}
