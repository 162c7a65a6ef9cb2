/**
 * Who may import whom in src, and where time and chance may be asked for. The table is the rule; what it does not name is refused.
 *
 *   node scripts/imports.mjs      `npm run imports`: a line for each import that the table refuses
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { parseAst } from 'rolldown/parseAst';

const root = dirname(import.meta.dirname);
const words = (/** @type {string} */ text) => text.split(/\s+/).filter(Boolean);

const base = 'errors runtime';
const set = `${base} endpoint observe`;
const pool = `${set} credentials resolver stage load`;
const call = `${pool} pool picker propagation limit retry`;
const balancer = `${call} call`;
const core = `${balancer} balancer placement place`;
const adapter = 'index adapter/kit';
const sql = `${adapter} adapter/sql`;
const http = `${adapter} adapter/http`;

/**
 * Each folder or file of src from the bottom up, and those it may import besides itself and Node's own modules. The longest name that
 * fits a file is its room. A name with `npm:` is a package.
 */
export const rooms = Object.entries({
  errors: '',
  runtime: 'errors',
  propagation: base,
  endpoint: base,
  credentials: `${base} endpoint`,
  observe: `${base} endpoint`,
  resolver: set,
  'resolver/kubernetes': `${set} resolver resolver/kubernetes/api resolver/kubernetes/slices resolver/kubernetes/watch`,
  'resolver/kubernetes/api': `${set} resolver`,
  'resolver/kubernetes/slices': `${set} resolver resolver/kubernetes/api`,
  'resolver/kubernetes/watch': `${set} resolver resolver/kubernetes/api resolver/kubernetes/slices`,
  stage: `${set} credentials`,
  limit: `${base} endpoint`,
  load: set,
  pool,
  picker: `${set} resolver stage load pool`,
  retry: `${set} resolver stage load pool picker`,
  call,
  balancer,
  placement: `${balancer} balancer`,
  // Applications import it: the core, and nothing that needs a peer.
  index: core,
  metrics: `${set} balancer`,
  opentelemetry: `${set} metrics npm:@opentelemetry/api`,
  admin: `${set} balancer metrics/index`,
  // It is not the client: it shares the waiting room and the limit.
  server: `${base} propagation endpoint/outcome limit/limit limit/call-limit load/orca call/waiting-room`,
  testing: core,
  'adapter/kit': `${core} resolver/kubernetes`,
  // What others write adapters with: a part of what ours share.
  'adapter/index': 'adapter/kit',
  'adapter/http': adapter,
  'adapter/sql': adapter,
  'adapter/undici': `${http} npm:undici`,
  'adapter/node-http': http,
  'adapter/http2': http,
  'adapter/ws': `${http} npm:ws`,
  'adapter/grpc-js': `${adapter} npm:@grpc/grpc-js`,
  'adapter/tcp': adapter,
  'adapter/amqp': adapter,
  'adapter/redis': adapter,
  'adapter/pg': `${sql} npm:pg`,
  'adapter/mysql2': `${sql} npm:mysql2`,
  register: `index admin/index admin/page-rules metrics/index adapter runtime/peer-version npm:undici npm:@grpc/grpc-js`,
  cli: '* npm:@kubernetes/client-node',
}).map(([name, may]) => ({ name, may: words(may) }));

/** Files that other rooms load on demand only: `import()`, or a type. */
const LAZY = 'resolver/kubernetes';
/** Files that look which version of a peer there is before anything imports it. */
const MAY_REQUIRE = ['adapter/undici/check-version', 'runtime/peer-version'];
/** Where the clock and the random numbers of everything else are made. */
const KEEPS_TIME = ['runtime', 'testing'];
const TIMERS = new Set(['setTimeout', 'setInterval', 'setImmediate', 'performance']);

const isIn = (/** @type {string} */ file, /** @type {string} */ room) => file === room || file.startsWith(`${room}/`);
/** Other names in the table are single files, or folders of rooms. */
const isRoom = (/** @type {string} */ name) => rooms.some((room) => room.name === name);
const roomOf = (/** @type {string} */ file) =>
  rooms.filter(({ name }) => isIn(file, name)).sort((a, b) => b.name.length - a.name.length)[0];

/**
 * What is wrong with some files, as `<file>: <why>`. @param {ReadonlyMap<string, string>} sources by their path in src, without `.ts`
 */
export function importProblems(sources) {
  const problems = [];
  const graph = new Map();
  for (const [file, source] of sources) {
    const say = (/** @type {string} */ why) => problems.push(`src/${file}.ts: ${why}`);
    const room = roomOf(file);
    const { imports, uses } = read(source);
    const targets = [];
    for (const { from, how } of imports) {
      if (how === 'hidden' && MAY_REQUIRE.includes(file)) continue;
      if (how === 'hidden') say(`write an import statement in place of ${from}: this check reads nothing else`);
      else if (from.startsWith('node:')) continue;
      else if (room === undefined) say('has no line in the table of scripts/imports.mjs');
      else if (!from.startsWith('.')) {
        const name = words(from.replaceAll('/', ' '))
          .slice(0, from.startsWith('@') ? 2 : 1)
          .join('/');
        if (!room.may.includes(`npm:${name}`)) say(`${room.name} may not import the package ${name}`);
      } else {
        const target = posix.join(posix.dirname(file), from).replace(/\.c?js$/, '');
        targets.push(target);
        const there = roomOf(target);
        const isOwn = there?.name === room.name;
        const isLazy = isIn(target, LAZY) && !isIn(file, LAZY) && how !== 'static' && room.name === 'resolver';
        const isNamed = (/** @type {string} */ one) => !isRoom(one) && isIn(target, one);
        if (!isOwn && !isLazy && !room.may.some((one) => one === '*' || one === there?.name || isNamed(one)))
          say(`${room.name} may not import ${target}`);
      }
    }
    graph.set(file, targets);
    if (!KEEPS_TIME.some((one) => isIn(file, one)))
      for (const use of uses) say(`${use}: time and chance are arguments (Clock, Rng)`);
  }
  return [
    ...problems,
    ...cycles(graph).map((cycle) => `src/${cycle[0]}.ts: a circle of imports: ${cycle.join(' → ')}`),
  ];
}

/** The imports of a file, and where it asks for time or chance. @param {string} source */
function read(source) {
  /** @type {{ from: string, how: 'static' | 'type' | 'lazy' | 'hidden' }[]} */
  const imports = [];
  const uses = [];
  const own = new Set();
  const visit = (/** @type {any} */ node, /** @type {any} */ parent) => {
    if (node === null || typeof node !== 'object') return;
    if (Array.isArray(node)) {
      for (const one of node) visit(one, parent);
      return;
    }
    const { type } = node;
    if (/^(Import|ExportNamed|ExportAll)Declaration$/.test(type) && node.source) {
      const isType = (node.importKind ?? node.exportKind) === 'type';
      imports.push({ from: node.source.value, how: isType ? 'type' : 'static' });
      for (const { local } of node.specifiers ?? []) own.add(local?.name);
      return;
    } else if (type === 'ImportExpression') imports.push({ from: String(node.source.value), how: 'lazy' });
    else if (type === 'TSImportType') imports.push({ from: 'import("…") as a type', how: 'hidden' });
    else if (type === 'CallExpression' && /^(require|createRequire)$/.test(node.callee.name))
      imports.push({ from: `${node.callee.name}()`, how: 'hidden' });
    else if (type === 'MemberExpression' && node.object.name) {
      const name = `${node.object.name}.${node.property.name}`;
      if (
        /^(Date\.now|Math\.random|globalThis\.(setTimeout|setInterval|setImmediate|performance|Date|Math))$/.test(name)
      )
        uses.push(name);
    } else if (/^(New|Call)Expression$/.test(type) && node.callee.name === 'Date') uses.push('Date');
    if (type === 'Identifier' && TIMERS.has(node.name) && !own.has(node.name) && !isName(node, parent))
      uses.push(node.name);
    for (const [key, value] of Object.entries(node)) if (key !== 'type') visit(value, node);
  };
  visit(parseAst(source, { lang: 'ts' }).body, undefined);
  return { imports, uses };
}

/** Whether an identifier only names a property. @param {any} node @param {any} parent */
const isName = (node, parent) => !parent?.computed && (parent?.property === node || parent?.key === node);

/** Circles of imports, one for each group of files. @param {ReadonlyMap<string, readonly string[]>} graph */
function cycles(graph) {
  const found = [];
  const done = new Set();
  const path = /** @type {string[]} */ ([]);
  const walk = (/** @type {string} */ file) => {
    if (path.includes(file)) found.push([...path.slice(path.indexOf(file)), file]);
    if (done.has(file)) return;
    done.add(file);
    path.push(file);
    for (const next of graph.get(file) ?? []) walk(next);
    path.pop();
  };
  for (const file of graph.keys()) walk(file);
  return found;
}

/** The files of a folder by their path in it, without `.ts`. @param {string} folder */
export function sourcesOf(folder) {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  return new Map(
    names.map((name) => [name.replaceAll('\\', '/').slice(0, -3), readFileSync(join(folder, name), 'utf8')]),
  );
}

if (process.argv[1] === import.meta.filename) {
  const problems = importProblems(sourcesOf(join(root, 'src')));
  for (const problem of problems) console.error(problem);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
