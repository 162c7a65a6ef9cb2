/**
 * Runs the benchmarks: every `*.bench.mjs` of this folder, one after the other, each a program that prints a Markdown
 * section to stdout.
 *
 *   npm run bench                       all
 *   npm run bench -- pick http          those named
 *   npm run bench -- --quick            few rounds, no verdicts on ratios
 *   npm run bench -- http --write       writes what was measured into its sections of docs/benchmarks.md or of a page beside it
 *
 * Through npm, programs that benchmarks compare with or need (HAProxy, nginx, MariaDB, PostgreSQL) are installed first where that is
 * possible: as root, with apt-get. `node test/bench/run.mjs` installs nothing.
 */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describeMachine } from './lib/machine.mjs';
import { withSections } from './lib/page.mjs';

const folder = new URL('.', import.meta.url);
const docs = new URL('../../docs/', import.meta.url);
/** The pages, and which benchmarks stand on each; all others stand on `shared`. */
const pages = [
  { file: 'benchmarks-fleet.md', title: 'Benchmarks: fleets', of: ['fleet', 'fleet-grpc', 'fleet-postgres'] },
  { file: 'benchmarks-http.md', title: 'Benchmarks: HTTP, gRPC and Connect', of: ['http', 'grpc', 'connect'] },
];
const shared = { file: 'benchmarks.md', title: 'Benchmarks: picks, MySQL, slices, starting' };
const pageOf = (/** @type {string} */ name) => pages.find(({ of }) => of.includes(name)) ?? shared;
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
npm run bench -- http --write       writes what was measured into docs/benchmarks.md or the page beside it that has it;
                                    http takes 15 minutes at most on two cores

Programs that they compare with (HAProxy, nginx) or need (MariaDB, PostgreSQL) are installed first, as root with apt-get;
node test/bench/run.mjs installs nothing.

There are: ${all.join(', ')}`;
if (args.includes('--help') || args.includes('-h')) {
  console.log(help);
  process.exit(0);
}
if (unknown.length > 0 || (write && quick)) {
  console.error(
    unknown.length > 0
      ? `No benchmark is called ${unknown.join(', ')}. There are: ${all.join(', ')}`
      : '--write takes benchmarks at their full length, without --quick.',
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
  for (const page of new Set([...sections.keys()].map(pageOf))) {
    writePage(
      page,
      [...sections].filter(([name]) => pageOf(name) === page).map(([, output]) => output),
    );
  }
}

/** @param {{ readonly file: string, readonly title: string }} page @param {readonly string[]} outputs */
function writePage({ file, title }, outputs) {
  const page = new URL(file, docs);
  const head = `# ${title}

Written by \`npm run bench -- --write\`; not edited by hand. [How figures are judged](decision/0005-judging-benchmarks.md): *holds*, *falls short*, *undecided here*.`;
  writeFileSync(page, withSections(existsSync(page) ? readFileSync(page, 'utf8') : '', head, outputs, machine));
  console.log(`wrote ${fileURLToPath(page)}`);
}
