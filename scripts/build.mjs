/**
 * Makes dist from src when something changed since the last time: tsc checks the code and writes the types, rolldown puts each
 * entry point into one file, with what they share in `dist/shared` (one copy of every class across entry points).
 *
 *   node scripts/build.mjs              builds if needed
 *   node scripts/build.mjs --clean      empties dist first and always builds (npm pack)
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(root, 'dist');
/** What `register` loads when an app first needs it; not part of the package's interface. */
const ofRegister = ['node-http', 'pages', 'common'].map((name) => `./dist/register/${name}.js`);
/** Engines of `register`, each a function of the `require` that gives it the copy of its library. */
const engines = ['undici', 'grpc-js'];
/** Written as they are published, for Nodes that are too old for anything else. */
const asTheyAre = ['register/register.cjs', 'register/register.d.cts'];
/** Runs before the peer is loaded that its importer imports: a chunk of its own, which `sideEffects` of package.json names. */
const checkVersion = /[\\/]([a-z0-9-]+)[\\/]check-version\.ts$/;
/** The modules of these folders and files of src, whose paths have the platform's separators. */
const modules = (...paths) => new RegExp(`/src/(${paths.join('|')})`.replaceAll('/', '[\\\\/]'));
/** What is loaded together, as one chunk each: a file more to load takes as long as 20 kB of code. */
const together = {
  // By servers, metrics and clients.
  base: modules(
    'errors',
    'runtime/',
    'propagation/',
    'endpoint/',
    'credentials/',
    'observe/',
    'retry/',
    'load/(cells|in-flight|latency-cell|load|load-rule|orca)\\.ts',
    'limit/limit\\.ts',
    'pool/(subchannel-calls|trackers)\\.ts',
    'resolver/(endpoint-list|host-families|wrong-target)\\.ts',
    'limit/call-limit\\.ts',
    'call/(waiting-line|waiting-room)\\.ts',
    'balancer/(endpoint-status|snapshot)\\.ts',
  ),
  // By every client.
  core: modules(
    'index\\.ts',
    'balancer/',
    'call/',
    'limit/',
    'load/',
    'picker/',
    'pool/',
    'resolver/[a-z-]+\\.ts',
    'stage/',
  ),
  // By the clients of a library.
  kit: modules('adapter/kit/', 'placement/'),
  // By the clients of HTTP.
  http: modules('adapter/http/'),
};
const cache = join(root, 'node_modules', '.cache', 'evenkeel');
const stamp = join(cache, 'dist-sources');

/** The name of the chunk that a module is put into apart from others; undefined for most. @param {string} id its path, with the platform's separators */
export function ownChunkOf(id) {
  const peer = checkVersion.exec(id)?.[1];
  if (peer !== undefined) return `check-version-${peer}`;
  return Object.keys(together).find((name) => together[name].test(id));
}

/** Builds unless dist was made from these very sources. */
export function buildIfChanged({ clean = false } = {}) {
  const hash = sourcesHash();
  if (!clean && existsSync(join(dist, 'index.js')) && readIfThere(stamp) === hash) return { built: false, output: '' };
  // Made beside dist and put in its place when complete: what does not compile leaves the old one.
  const next = join(cache, `dist-${process.pid}`);
  rmSync(next, { recursive: true, force: true });
  const tsc = run(join('node_modules', 'typescript', 'bin', 'tsc'), '-p', 'tsconfig.build.json', '--outDir', next);
  if (tsc.status !== 0) return { built: false, failed: true, output: tsc.stdout + tsc.stderr };
  // A process of its own: rolldown works asynchronously, and callers of this do not.
  const bundler = run(fileURLToPath(import.meta.url), '--bundle', next);
  if (bundler.status !== 0) return { built: false, failed: true, output: bundler.stdout + bundler.stderr };
  rmSync(stamp, { force: true });
  rmSync(dist, { recursive: true, force: true });
  renameSync(next, dist);
  writeFileSync(stamp, hash);
  return { built: true, output: tsc.stdout };
}

/**
 * Bundles sources, by the name of the file each becomes (without `.js`). Comments are in the types, which editors show;
 * names, line breaks and the order of the code stay, so that a stack trace can be read.
 */
export async function bundle(input, dir) {
  const { rolldown } = await import('rolldown');
  const bundled = await rolldown({
    cwd: root,
    input,
    external: [/^node:/, ...Object.keys(manifest().peerDependencies).map((peer) => new RegExp(`^${peer}(/|$)`))],
    platform: 'node',
    tsconfig: 'tsconfig.json',
    // What splitting as below implies; unsaid, rolldown warns.
    preserveEntrySignatures: 'allow-extension',
    treeshake: { moduleSideEffects: (id) => checkVersion.test(id) },
    plugins: [onlyAscii],
  });
  await bundled.write({
    dir,
    format: 'esm',
    entryFileNames: '[name].js',
    codeSplitting: {
      includeDependenciesRecursively: false,
      groups: [{ name: (id) => ownChunkOf(id) ?? null }],
    },
    chunkFileNames: ({ name }) => `shared/${name === 'src' ? 'core' : name}.js`,
    minify: false,
    minifyInternalExports: false,
    comments: { legal: true, annotation: false, jsdoc: false },
  });
  await bundled.close();
}

/** One character that is none of ASCII doubles the memory that a file's source takes in Node. */
const onlyAscii = {
  name: 'only-ascii',
  renderChunk: (code) =>
    code.replace(/[^\0-\x7f]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`),
};

/** Bundles the engines of `register`; what they import besides their adapter and its library is in `register/common.js`. */
async function bundleEngines(dir) {
  const { rolldown } = await import('rolldown');
  for (const name of engines) {
    const own = modules('register/', `adapter/${name}/`);
    const bundled = await rolldown({
      cwd: root,
      input: { [name]: `src/register/${name}.ts` },
      external: (id, _importer, isResolved) =>
        isResolved ? !own.test(id) : id.startsWith('node:') || Object.keys(manifest().peerDependencies).includes(id),
      platform: 'node',
      tsconfig: 'tsconfig.json',
    });
    await bundled.write({
      dir: join(dir, 'register'),
      format: 'cjs',
      entryFileNames: '[name].cjs',
      paths: (id) => (id.startsWith(join(root, 'src')) ? './common.js' : id),
      banner: 'module.exports = (require) => {\nconst exports = {};',
      footer: 'return exports;\n};',
      minify: false,
      comments: { legal: true, annotation: false, jsdoc: false },
    });
    await bundled.close();
    const missing = missingInCommon(join(dir, 'register'), name);
    if (missing.length > 0)
      throw new Error(`src/register/common.ts lacks what ${name}.cjs needs: ${missing.join(', ')}`);
  }
}

/** What an engine uses of `register/common.js` that is not exported there: nobody would notice before a request fails. */
function missingInCommon(folder, engine) {
  const [, exported = ''] = /^export \{(.*)\};?$/m.exec(readFileSync(join(folder, 'common.js'), 'utf8')) ?? [];
  const names = new Set(exported.split(',').map((name) => name.trim().split(' as ').at(-1)));
  const code = readFileSync(join(folder, `${engine}.cjs`), 'utf8');
  const used = new Set([...code.matchAll(/\bsrc_\w+_ts\.(\w+)/g)].map(([, name]) => name));
  return [...used].filter((name) => !names.has(name));
}

/** Bundles sources into a folder of their own and imports them: for benchmarks of what no entry point exports. */
export async function importSources(...sources) {
  // Other sources share other chunks, under the same names; a chunk that is already loaded stays as it is.
  const folder = join(cache, 'sources', createHash('sha256').update(sources.join('\0')).digest('hex').slice(0, 16));
  const names = sources.map((source) => source.replace(/^src\/|\.ts$/g, ''));
  await bundle(Object.fromEntries(names.map((name, at) => [name, sources[at]])), folder);
  return Promise.all(names.map((name) => import(pathToFileURL(join(folder, `${name}.js`)).href)));
}

/** The sources of what can be imported or run, by the name of the file each becomes. */
function entryPoints() {
  const { exports, bin } = manifest();
  const files = [
    ...Object.values(exports)
      .flatMap((target) => target.default ?? [])
      .filter((file) => file.endsWith('.js')),
    ...Object.values(bin),
    ...ofRegister,
  ];
  const names = files.map((file) => file.replace(/^\.\/dist\/|\.js$/g, ''));
  return Object.fromEntries(names.map((name) => [name, `src/${name}.ts`]));
}

/** Removes the types that no entry point's types import, not even by way of others. */
function cutTypes(folder) {
  const reached = new Set();
  const reach = (file) => {
    if (reached.has(file)) return;
    reached.add(file);
    for (const [, from] of readFileSync(file, 'utf8').matchAll(/\b(?:from |import |import\()['"](\.[^'"]+)\.js['"]/g)) {
      reach(join(dirname(file), `${from}.d.ts`));
    }
  };
  for (const { types = '' } of Object.values(manifest().exports)) {
    if (types.endsWith('.d.ts')) reach(join(folder, relative('dist', types)));
  }
  for (const file of filesUnder(folder)) if (!reached.has(file)) rmSync(file);
}

function manifest() {
  return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
}

function run(program, ...args) {
  return spawnSync(process.execPath, [program, ...args], { cwd: root, encoding: 'utf8' });
}

/** One hash over what the result depends on: sources, compiler options, compiler. */
function sourcesHash() {
  const hash = createHash('sha256');
  const compilers = ['typescript', 'rolldown'].map((name) => join('node_modules', name, 'package.json'));
  const settings = ['tsconfig.json', 'tsconfig.build.json', 'package.json', 'scripts/build.mjs'];
  const sources = filesUnder(join(root, 'src')).map((file) => relative(root, file));
  for (const file of [...settings, ...compilers, ...sources.sort()]) {
    hash
      .update(file)
      .update('\0')
      .update(readFileSync(join(root, file)))
      .update('\0');
  }
  return hash.digest('hex');
}

function filesUnder(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

function readIfThere(file) {
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv[2] === '--bundle') {
    const folder = process.argv[3] ?? dist;
    cutTypes(folder);
    await bundle(entryPoints(), folder);
    await bundleEngines(folder);
    for (const file of asTheyAre) copyFileSync(join(root, 'src', file), join(folder, file));
    // npm makes the command executable only when it links the package, so `npx evenkeel` would fail after the next build.
    for (const command of Object.values(manifest().bin)) chmodSync(join(folder, relative('dist', command)), 0o755);
  } else {
    const { failed, output } = buildIfChanged({ clean: process.argv.includes('--clean') });
    if (failed) {
      console.error(output);
      process.exitCode = 1;
    }
  }
}
