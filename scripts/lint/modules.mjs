/**
 * Who may import whom, as a table: writes `modules.json`, which the linter reads.
 *
 *   node scripts/lint/modules.mjs      writes it; `npm test` fails if it was not
 */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The core from the bottom up: each module may import those named, `errors`, itself and Node's own modules. */
const core = {
  runtime: [],
  propagation: ['runtime'],
  place: ['runtime'],
  endpoint: ['runtime'],
  credentials: ['runtime', 'endpoint'],
  observe: ['runtime', 'endpoint'],
  resolver: ['runtime', 'endpoint', 'observe'],
  stage: ['runtime', 'place', 'endpoint', 'credentials', 'observe'],
  limit: ['runtime', 'endpoint'],
  load: ['runtime', 'endpoint', 'observe'],
};
core.pool = ['runtime', 'endpoint', 'credentials', 'observe', 'resolver', 'stage', 'load'];
core.picker = ['runtime', 'endpoint', 'observe', 'resolver', 'stage', 'load', 'pool'];
core.retry = [...core.picker, 'picker'];
core.call = [...core.retry, 'propagation', 'limit', 'retry'];
core.balancer = [...core.call, 'call'];
core.placement = [...core.balancer, 'balancer'];

/** What stands on the core. The patterns are what each may import besides itself and Node's own modules. */
const aboveTheCore = {
  recorder: [...modules('errors', ...core.balancer, 'balancer')],
  metrics: [...modules('errors', ...core.observe, 'observe', 'balancer')],
  opentelemetry: ['@opentelemetry/api', ...modules('errors', ...core.observe, 'observe', 'metrics')],
  admin: [...modules('errors', ...core.observe, 'observe', 'balancer'), '../metrics/index.js', '../recorder/index.js'],
  // It is not the client: it shares the waiting room and the limit.
  server: [
    ...modules('errors', 'runtime', 'propagation'),
    ...['../endpoint/outcome.js', '../limit/limit.js', '../limit/call-limit.js', '../load/orca.js'],
    '../call/waiting-room.js',
  ],
};

/** The patterns of modules beside one's own. */
function modules(...names) {
  return names.map((name) => (name === 'errors' ? '../errors.js' : `../${name}/**`));
}

/** Refuses every import but these. */
const only = (includes, allowed, message) => denying(includes, ['**', ...allowed.map((one) => `!${one}`)], message);

/** Refuses imports from above the folder but these; packages are checked by another rule. */
const above = (includes, up, allowed, message, denied = []) =>
  denying(includes, [`${up}**`, ...allowed.map((one) => `!${one}`), ...denied], message);

function denying(includes, group, message) {
  const options = { patterns: [{ group, message }] };
  return {
    includes: [includes].flat(),
    linter: { rules: { style: { noRestrictedImports: { level: 'error', options } } } },
  };
}

const time = 'Time is an argument: use the Clock of the context.';
const adapterKit = ['../../index.js', '../kit/index.js'];
const inAdapterFolder = ['../../../index.js', '../../kit/index.js'];
const inSqlFolder = [...inAdapterFolder, '../../sql/**'];

const overrides = [
  {
    includes: ['src/**', '!src/runtime/**', '!src/testing/**'],
    plugins: ['./scripts/lint/injected-time.grit'],
    linter: {
      rules: {
        style: {
          noRestrictedGlobals: {
            level: 'error',
            options: { deniedGlobals: { setTimeout: time, setInterval: time, setImmediate: time, performance: time } },
          },
        },
      },
    },
  },
  {
    includes: ['src/**', '!src/register/*.cjs'],
    plugins: ['./scripts/lint/import-forms.grit'],
    linter: {
      rules: {
        correctness: { noUndeclaredDependencies: { level: 'error', options: { devDependencies: false } } },
      },
    },
  },
  { includes: ['src/resolver/*.ts'], plugins: ['./scripts/lint/lazy-kubernetes.grit'] },
  // Parsed by Nodes as old as 12.
  {
    includes: ['deploy/loader/**', 'src/register/*.cjs'],
    linter: {
      rules: {
        style: { useNodejsImportProtocol: 'off', noRestrictedImports: 'off' },
        complexity: { useOptionalChain: 'off', noArguments: 'off' },
      },
    },
  },

  only('src/errors.ts', [], 'errors.ts imports nothing.'),
  ...Object.entries(core).map(([name, below]) =>
    only(
      `src/${name}/**`,
      ['node:*', './**', ...modules('errors', ...below)],
      `${name} may import ${['errors', ...below].join(', ')} and Node's own modules only: imports point one way.`,
    ),
  ),
  only(
    'src/resolver/kubernetes/*.ts',
    [...['node:*', './**', '../*.js', '../../errors.js'], ...core.resolver.map((name) => `../../${name}/**`)],
    'resolver/kubernetes may import resolver and what resolver may import only: imports point one way.',
  ),
  ...Object.entries({ api: [], slices: ['api'], watch: ['api', 'slices'] }).map(([name, below]) =>
    only(
      `src/resolver/kubernetes/${name}/**`,
      [
        ...['node:*', './*.js', '../../*.js', '../../../errors.js', ...below.map((one) => `../${one}/**`)],
        ...(name === 'api' ? ['@kubernetes/client-node'] : []),
        ...core.resolver.map((one) => `../../../${one}/**`),
      ],
      `kubernetes/${name} may import ${['resolver', ...below].join(', ')} and what resolver may import only: imports point one way.`,
    ),
  ),
  ...Object.entries(aboveTheCore).map(([name, allowed]) =>
    only(`src/${name}/**`, ['node:*', './**', ...allowed], `${name} may import ${allowed.join(' ')} only.`),
  ),
  denying(
    'src/index.ts',
    [...['**', '!./errors.js'], ...Object.keys(core).map((name) => `!./${name}/**`), './resolver/kubernetes/**'],
    'The root entry point holds the core only: no other entry point, no peer.',
  ),

  above('src/adapter/**', '../', adapterKit, 'Adapters import the root, the kit and their peer only.'),
  above('src/adapter/*/*/**', '../../', inAdapterFolder, 'Adapters import the root, the kit and their peer only.'),
  above(
    'src/adapter/mysql2/checks/**',
    '../../',
    inAdapterFolder,
    'checks may import no other folder of the adapter: imports point one way.',
    ['../cluster/**', '../server/**', '../follow-service/**'],
  ),
  above(
    'src/adapter/mysql2/server/**',
    '../../',
    inSqlFolder,
    "server may import checks only, of the adapter's folders: imports point one way.",
    ['../cluster/**', '../follow-service/**'],
  ),
  above(
    'src/adapter/mysql2/cluster/**',
    '../../',
    inSqlFolder,
    'cluster and follow-service do not import each other.',
    ['../follow-service/**'],
  ),
  above(
    'src/adapter/mysql2/follow-service/**',
    '../../',
    inAdapterFolder,
    'cluster and follow-service do not import each other.',
    ['../cluster/**'],
  ),
  above(
    ['src/adapter/undici/**', 'src/adapter/node-http/**', 'src/adapter/ws/**', 'src/adapter/http2/**'],
    '../',
    [...adapterKit, '../http/**'],
    'HTTP adapters import the root, the kit, what they share (../http) and their peer only.',
  ),
  above(
    ['src/adapter/mysql2/*.ts', 'src/adapter/pg/**'],
    '../',
    [...adapterKit, '../sql/**'],
    'Adapters of SQL databases import the root, the kit, what they share (../sql) and their peer only.',
  ),
  only(
    'src/adapter/sql/**',
    ['node:*', './**', ...adapterKit],
    "What adapters of SQL databases share imports the root, the kit and Node's own modules only: no peer.",
  ),
  above(
    'src/adapter/undici/app-agent/**',
    '../../',
    [...inAdapterFolder, '../../http/**'],
    'HTTP adapters import the root, the kit, what they share (../../http) and their peer only.',
  ),
  only(
    'src/adapter/http/**',
    ['node:*', './**', ...adapterKit],
    "What HTTP adapters share imports the root, the kit and Node's own modules only: no peer.",
  ),
  denying(
    'src/adapter/kit/**',
    ['**', '!node:*', '!./**', '!../../**', '../../adapter/**', '../../testing/**', '../../cli/**'],
    'The kit exports parts of the core: no adapter, no peer.',
  ),
  only(
    'src/register/**',
    [
      'node:*',
      './*.js',
      '../index.js',
      '../admin/index.js',
      '../metrics/index.js',
      '../adapter/**',
      'undici',
      '@grpc/grpc-js',
    ],
    'register may import entry points only: it stands on top of all of them.',
  ),
  denying(
    'src/testing/**',
    ['**', '!node:*', '!./**', '!../**', '../adapter/**', '../cli/**', '../../adapter/**', '../../cli/**'],
    "testing may import the core and Node's own modules only.",
  ),
];

/** What `modules.json` contains. */
export const rules = { $schema: '../../node_modules/@biomejs/biome/configuration_schema.json', overrides };

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(join(import.meta.dirname, 'modules.json'), JSON.stringify(rules));
  const biome = join(import.meta.dirname, '../../node_modules/@biomejs/biome/bin/biome');
  spawnSync(process.execPath, [biome, 'format', '--write', 'scripts/lint'], { stdio: 'inherit' });
}
