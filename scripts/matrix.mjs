/**
 * Runs the integration tests of the entry points on every supported Node, with the oldest and the newest supported version of
 * their peers.
 *
 *   node scripts/matrix.mjs               all combinations
 *   node scripts/matrix.mjs 22 undici-8   only those of Node 22 with undici 8
 *
 * Other Nodes come from the npm package `node`; other versions of a peer are installed under node_modules/.cache.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildIfChanged } from './build.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const nodes = [20, 22, 24, 26];

/** What the tests run with; without `peer` it is what package-lock.json says. A folder (or file) is one of test/integration. */
const variants = [
  { name: 'undici-7', from: 20, folders: ['undici', 'node-http', 'mocks', 'tls', 'server/not-begun.test.ts'] },
  { name: 'register', from: 20, folders: ['register', 'node-http/app-agents.test.ts'] },
  { name: 'register-undici-8', from: 22, folders: ['register'], peer: 'undici', version: '8' },
  {
    name: 'installed',
    from: 20,
    folders: [
      'dns',
      'kubernetes',
      'discovery',
      'grpc-js',
      'mysql2',
      'pg',
      'redis',
      'rsocket',
      'http2',
      'tcp',
      'ws',
      'amqp',
    ],
  },
  {
    name: 'undici-8',
    from: 22,
    folders: ['undici', 'mocks', 'tls', 'server/not-begun.test.ts'],
    peer: 'undici',
    version: '8',
  },
  // Versions that differ from the newest 8 in what is built on here: HTTP/2 is refused, and controllers are written to.
  {
    name: 'undici-8-oldest',
    from: 22,
    folders: ['undici/versions.test.ts', 'undici/interceptors.test.ts', 'undici/clients.test.ts'],
    peer: 'undici',
    version: '8.0.0',
  },
  { name: 'undici-8.2', from: 22, folders: ['undici'], peer: 'undici', version: '8.2.0' },
  // The last whose HTTP/2 is refused, and the first whose is not.
  { name: 'undici-8.9', from: 22, folders: ['undici/versions.test.ts'], peer: 'undici', version: '8.9.0' },
  { name: 'undici-8.10.0', from: 22, folders: ['undici'], peer: 'undici', version: '8.10.0' },
  // Ten pods replaced three times over HTTP/2 under load: the proof at full counts, with its figures.
  {
    name: 'undici-8-h2-rollout',
    from: 22,
    folders: ['undici/rollout.test.ts'],
    peer: 'undici',
    version: '8',
    proofOf: 'HTTP/2',
  },
  { name: 'undici-oldest', from: 20, folders: ['undici'], peer: 'undici', version: '7.0.0' },
  // Other runtimes, as their npm packages bring them.
  { name: 'bun', from: 22, folders: ['runtimes'], peer: '@oven/bun-linux-x64', version: '1' },
  { name: 'deno', from: 22, folders: ['runtimes'], peer: '@deno/linux-x64-glibc', version: '2' },
  { name: 'grpc-js-oldest', from: 20, folders: ['grpc-js'], peer: '@grpc/grpc-js', version: '1.14.0' },
  // Each comes with its own `@connectrpc/connect`, of exactly its version.
  {
    name: 'connect-oldest',
    from: 20,
    folders: ['http2'],
    peer: '@connectrpc/connect-node',
    version: '2.0.0',
    brings: ['@connectrpc/connect'],
  },
  {
    name: 'connect-newest',
    from: 22,
    folders: ['http2'],
    peer: '@connectrpc/connect-node',
    version: '2',
    brings: ['@connectrpc/connect'],
  },
  { name: 'mysql2-oldest', from: 20, folders: ['mysql2'], peer: 'mysql2', version: '3.9.0' },
  { name: 'pg-oldest', from: 20, folders: ['pg'], peer: 'pg', version: '8.11.0' },
  { name: 'ioredis-oldest', from: 20, folders: ['redis'], peer: 'ioredis', version: '5.4.0' },
  { name: 'redis-oldest', from: 20, folders: ['redis/node-redis.test.ts'], peer: 'redis', version: '5.0.0' },
  { name: 'redis-6', from: 20, folders: ['redis/node-redis.test.ts'], peer: 'redis', version: '6' },
  { name: 'ioredis-6', from: 20, folders: ['redis'], peer: 'ioredis', version: '6' },
  { name: 'amqplib-oldest', from: 20, folders: ['amqp/brokers.test.ts'], peer: 'amqplib', version: '0.10.3' },
  {
    name: 'rabbitmq-client-oldest',
    from: 20,
    folders: ['amqp/brokers.test.ts'],
    peer: 'rabbitmq-client',
    version: '5.0.0',
  },
  { name: 'client-node-2', from: 22, folders: ['kubernetes'], peer: '@kubernetes/client-node', version: '2' },
  { name: 'client-node-oldest', from: 20, folders: ['kubernetes'], peer: '@kubernetes/client-node', version: '1.3.0' },
].map((variant) => ({
  ...variant,
  folders: variant.folders.filter((folder) => existsSync(join(root, 'test/integration', folder))),
}));

const cells = nodes.flatMap((node) =>
  variants.filter(({ from, folders }) => node >= from && folders.length > 0).map((variant) => ({ ...variant, node })),
);
const wanted = process.argv.slice(2);
const wantedNodes = wanted.filter((word) => /^\d+$/.test(word)).map(Number);
const wantedNames = wanted.filter((word) => !/^\d+$/.test(word));
const chosen = cells.filter(
  ({ node, name }) =>
    (wantedNodes.length === 0 || wantedNodes.includes(node)) &&
    (wantedNames.length === 0 || wantedNames.includes(name)),
);
if (chosen.length === 0) {
  console.error(
    `No such combination. Nodes: ${nodes.join(', ')}. With: ${variants.map(({ name }) => name).join(', ')}`,
  );
  process.exit(2);
}

/** Installs one version of a peer in a folder of its own; returns the folder of its packages. @param {string} peer @param {string} version */
function install(peer, version) {
  const folder = join(root, 'node_modules/.cache/evenkeel/peers', `${peer.replace('/', '-')}-${version}`);
  const packages = join(folder, 'node_modules');
  if (existsSync(join(packages, peer))) return packages;
  mkdirSync(folder, { recursive: true });
  const flags = ['--no-save', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'];
  const { status, stderr } = spawnSync('npm', ['install', ...flags, '--prefix', folder, `${peer}@${version}`], {
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`${peer}@${version} could not be installed:\n${stderr}`);
  return packages;
}

/** @param {typeof cells[number]} cell */
async function run({ node, name, folders, peer, version, brings = [], proofOf }) {
  const started = performance.now();
  /** @type {Record<string, string>} */
  const peers = {};
  if (peer && version) {
    const packages = install(peer, version);
    for (const taken of [peer, ...brings]) peers[taken] = join(packages, taken);
  }
  const vitest = [
    join(root, 'node_modules/vitest/vitest.mjs'),
    'run',
    '-c',
    'vitest.matrix.config.ts',
    '--reporter=dot',
  ];
  const paths = folders.map((folder) => `test/integration/${folder}${folder.endsWith('.ts') ? '' : '/'}`);
  const args = [...vitest, ...paths, ...(proofOf ? ['-t', proofOf] : [])];
  const own = Number(process.versions.node.split('.')[0]) === node;
  const env = { ...process.env, EVENKEEL_PEERS: JSON.stringify(peers), NO_COLOR: '1', FORCE_COLOR: undefined };
  if (proofOf) Object.assign(env, { EVENKEEL_PROOF: '1' });
  const options = { cwd: root, env };
  const child = own
    ? spawn(process.execPath, args, options)
    : spawn('npx', ['-y', '-p', `node@${node}`, 'node', ...args], options);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk) => {
      output += chunk;
    });
  }
  const code = await new Promise((resolve) => {
    child.on('error', (error) => {
      output += error.message;
      resolve(1);
    });
    child.on('close', resolve);
  });
  const tests = /^\s*Tests\s+(.*)$/m.exec(output)?.[1] ?? '';
  const counts = ['passed', 'failed', 'skipped'].map((what) => new RegExp(`(\\d+) ${what}`).exec(tests)?.[1] ?? '0');
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  // A row of a table in Markdown; a file that did not even load is no failed test.
  const cells = [`Node ${node}`, name, ...counts, `${seconds} s`, commit, code === 0 ? 'ok' : 'FAILED'];
  console.log(`| ${cells.join(' | ')} |`);
  if (code !== 0) console.log(output.trimEnd());
  else if (proofOf) for (const [figures] of output.matchAll(/^.*: requests .*$/gm)) console.log(`        ${figures}`);
  return code === 0;
}

const git = spawnSync('git', ['describe', '--always', '--dirty'], { cwd: root, encoding: 'utf8' });
const commit = git.status === 0 ? git.stdout.trim() : 'no commit';

const build = buildIfChanged();
if (build.failed) throw new Error(build.output);

let failed = 0;
console.log('| Node | with | passed | failed | skipped | duration | commit | |');
console.log('|---|---|---|---|---|---|---|---|');
for (const cell of chosen) if (!(await run(cell))) failed++;
console.log(`${chosen.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
