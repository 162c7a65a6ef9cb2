/**
 * Runs the benchmarks: every `*.bench.mjs` of this folder, one after the other, each a program that prints a Markdown
 * section to stdout.
 *
 *   npm run bench                       all
 *   npm run bench -- pick http          those named
 *   npm run bench -- --quick            few rounds, no verdicts on ratios
 *   npm run bench -- --write            writes docs/benchmarks.md and the pages beside it from what was measured
 *   npm run bench -- http --write       writes the page of those that have one; grpc and connect share one
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
/** The pages for which benchmarks are run by themselves; the other benchmarks share one page. */
const pages = [
  { file: 'benchmarks-fleet.md', title: 'Benchmarks: a fleet', of: ['fleet'] },
  { file: 'benchmarks-fleet-grpc.md', title: 'Benchmarks: a fleet over gRPC', of: ['fleet-grpc'] },
  {
    file: 'benchmarks-fleet-postgres.md',
    title: 'Benchmarks: a fleet that reads from PostgreSQL',
    of: ['fleet-postgres'],
  },
  { file: 'benchmarks-http.md', title: 'Benchmarks: HTTP', of: ['http'] },
  { file: 'benchmarks-http2.md', title: 'Benchmarks: gRPC and Connect', of: ['grpc', 'connect'] },
];
/** The pages that these benchmarks fill. @param {readonly string[]} names */
const filledBy = (names) => pages.filter(({ of }) => of.every((name) => names.includes(name)));
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
npm run bench -- http --write       writes the page of those that have one; http takes 15 minutes at most on two cores
npm run bench -- grpc connect --write    writes the page that these two share

Programs that they compare with (HAProxy, nginx) or need (MariaDB, PostgreSQL) are installed first, as root with apt-get;
node test/bench/run.mjs installs nothing.

There are: ${all.join(', ')}`;
if (args.includes('--help') || args.includes('-h')) {
  console.log(help);
  process.exit(0);
}
const isPart = named.some((name) => !filledBy(named).some(({ of }) => of.includes(name)));
if (unknown.length > 0 || (write && (quick || isPart))) {
  console.error(
    unknown.length > 0
      ? `No benchmark is called ${unknown.join(', ')}. There are: ${all.join(', ')}`
      : '--write takes all benchmarks, or all of a page other than docs/benchmarks.md, at their full length.',
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
  const shared = [...sections].filter(([name]) => !pages.some(({ of }) => of.includes(name)));
  const links = pages.map(({ file, title }) => `[${title}](${file})`);
  if (shared.length > 0) {
    const texts = shared.map(([, section]) => section);
    writePage('benchmarks.md', 'Benchmarks', [`Pages of their own: ${links.join(', ')}.`, ...texts]);
  }
  for (const { file, title, of } of filledBy([...sections.keys()])) {
    writePage(
      file,
      title,
      of.map((name) => String(sections.get(name))),
    );
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
