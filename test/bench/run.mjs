/**
 * Runs the benchmarks: every `*.bench.mjs` of this folder, one after the other, each a program that prints a Markdown
 * section to stdout.
 *
 *   npm run bench                       all
 *   npm run bench -- pick http          those named
 *   npm run bench -- --quick            few rounds, no verdicts on ratios
 *   npm run bench -- --write            writes docs/benchmarks.md and the pages beside it from what was measured
 *   npm run bench -- http --write       writes the page of those that have one of their own
 *
 * Through npm, programs that benchmarks compare with or need (HAProxy, nginx, MariaDB, PostgreSQL) are installed first where that is
 * possible: as root, with apt-get. `node test/bench/run.mjs` installs nothing.
 */
import { spawn } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describeMachine } from './lib/machine.mjs';

const folder = new URL('.', import.meta.url);
const docs = new URL('../../docs/', import.meta.url);
/** Benchmarks with a page of their own, by its name and title; the others share one. */
const ownPages = new Map([
  ['fleet', { file: 'benchmarks-fleet.md', title: 'Benchmarks: a fleet' }],
  ['fleet-grpc', { file: 'benchmarks-fleet-grpc.md', title: 'Benchmarks: a fleet over gRPC' }],
  ['fleet-postgres', { file: 'benchmarks-fleet-postgres.md', title: 'Benchmarks: a fleet that reads from PostgreSQL' }],
  ['http', { file: 'benchmarks-http.md', title: 'Benchmarks: HTTP' }],
]);
const args = process.argv.slice(2);
const quick = args.includes('--quick');
const write = args.includes('--write');
const named = args.filter((arg) => !arg.startsWith('--'));

/** These come first, in this order; the rest by name. */
const first = ['fleet', 'fleet-grpc', 'fleet-postgres', 'pick', 'http'];
const rank = (/** @type {string} */ name) => (first.includes(name) ? first.indexOf(name) : first.length);
const all = readdirSync(folder)
  .filter((file) => file.endsWith('.bench.mjs'))
  .map((file) => file.replace('.bench.mjs', ''))
  .sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
const unknown = named.filter((name) => !all.includes(name));
const help = `npm run bench                       all, which takes hours
npm run bench -- pick http          those named
npm run bench -- --quick            few rounds, no verdicts on ratios
npm run bench -- --write            writes docs/benchmarks.md and the pages beside it
npm run bench -- http --write       writes the page of those that have one of their own; http takes 15 minutes at most on two cores

Programs that they compare with (HAProxy, nginx) or need (MariaDB, PostgreSQL) are installed first, as root with apt-get;
node test/bench/run.mjs installs nothing.

There are: ${all.join(', ')}`;
if (args.includes('--help') || args.includes('-h')) {
  console.log(help);
  process.exit(0);
}
const isPart = named.some((name) => !ownPages.has(name));
if (unknown.length > 0 || (write && (quick || isPart))) {
  console.error(
    unknown.length > 0
      ? `No benchmark is called ${unknown.join(', ')}. There are: ${all.join(', ')}`
      : '--write takes all benchmarks, or those with a page of their own, at their full length.',
  );
  process.exit(2);
}

/** Runs one benchmark; its section goes to stdout as it comes and is returned. @param {string} name */
async function run(name) {
  const file = fileURLToPath(new URL(`${name}.bench.mjs`, folder));
  const child = spawn(process.execPath, ['--expose-gc', file, ...args.filter((arg) => arg.startsWith('--'))], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let section = '';
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    section += chunk;
    process.stdout.write(chunk);
  });
  const code = await new Promise((resolve) => child.on('close', resolve));
  if (code !== 0) throw new Error(`benchmark ${name} ended with ${code}`);
  return section.trim();
}

const machine = `Measured on ${new Date().toISOString().slice(0, 10)}: ${describeMachine()}.`;
console.log(`${machine}\n`);
/** @type {Map<string, string>} */
const sections = new Map();
for (const name of named.length > 0 ? named : all) sections.set(name, await run(name));

if (write) {
  const shared = [...sections].filter(([name]) => !ownPages.has(name)).map(([, section]) => section);
  const links = [...ownPages.values()].map(({ file, title }) => `[${title}](${file})`);
  if (shared.length > 0)
    writePage('benchmarks.md', 'Benchmarks', [`Pages of their own: ${links.join(', ')}.`, ...shared]);
  for (const [name, { file, title }] of ownPages) {
    const section = sections.get(name);
    if (section !== undefined) writePage(file, title, [section]);
  }
}

/** @param {string} file @param {string} title @param {readonly string[]} parts */
function writePage(file, title, parts) {
  const text = `# ${title}

Written by \`npm run bench -- --write\`; not edited by hand. Run it on your own machine: only ratios within one run mean anything.

${machine}

How a ratio is judged: at least 40 interleaved rounds in random order, the baseline in each of them twice. The figure is the
median of the per-round ratios with its bootstrap 95 % interval. It *holds* when the interval stays on the right side of the
wanted number, give or take 0.02, and the baseline against itself (A/A) lies within 1 ± 0.03. It *falls short* when the whole
interval is on the wrong side by more than A/A itself strays. Anything else is *undecided here*: the machine is too noisy to tell.

${parts.join('\n\n')}
`;
  const page = new URL(file, docs);
  writeFileSync(page, text);
  console.log(`wrote ${fileURLToPath(page)}`);
}
