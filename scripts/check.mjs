/**
 * Runs the project's checks one after the other and sums them up.
 *
 *   node scripts/check.mjs              those that need no server and no program outside npm (npm test)
 *   node scripts/check.mjs --all        all of them (npm test -- --all, and the CI)
 *   node scripts/check.mjs lint unit    those named, with their output
 *
 * The last line is `N passed, N failed`: test cases where a check counts them, one for each check that does not.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildIfChanged } from './build.mjs';
import { readReport } from './check-reporter.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const scratch = mkdtempSync(join(tmpdir(), 'evenkeel-check-'));

const bin = (path) => join(root, 'node_modules', path);
const biome = (...args) => [bin('@biomejs/biome/bin/biome'), ...args];
const tsc = (project) => [bin('typescript/bin/tsc'), '-p', project];
const script = (name) => [join(root, 'scripts', name)];

/** A vitest project; its totals come from what `check-reporter.mjs` writes. */
const suite = (project, more = {}) => ({ name: project, project, ...more });

/**
 * At most so many failed files of a check with real servers are run once more, one at a time: on a busy machine a timeout of the
 * library under test, or of the system, can pass while a test waits. What passes then is named as unsteady; what fails twice fails.
 */
const SECOND_LOOK_FILES = 3;

const ALL = '--all';

/** A check that reports nothing for so long hangs: more than the longest timeout of a test, which is four minutes. */
const SILENCE_MS = 6 * 60_000;

const checks = [
  { name: 'format', args: biome('format', '.') },
  { name: 'lint', args: biome('lint', '.', '--error-on-warnings') },
  { name: 'imports', args: script('imports.mjs') },
  { name: 'types', args: tsc('tsconfig.json') },
  suite('unit'),
  suite('contract'),
  suite('simulation'),
  // Their programs import the package by its name, hence from dist.
  suite('integration', { built: true, realServers: true, slow: true }),
  suite('playground', { built: true, realServers: true, slow: true }),
  suite('package', { realServers: true, slow: true }),
  { name: 'examples', args: tsc('tsconfig.javascript.json'), built: true },
  { name: 'pages', args: tsc('tsconfig.page.json') },
  { name: 'docs-links', args: script('docs-links.mjs') },
];

/** Output that is kept for later is kept without colours. */
const plain = { ...process.env, NO_COLOR: '1', FORCE_COLOR: undefined };

/** Runs one check to its end, and once more those of its files that need a second look. */
async function run(check, quiet) {
  const first = await runOnce(check, quiet, []);
  const { failedFiles } = first;
  if (!check.realServers || first.failed === 0 || failedFiles.length === 0 || failedFiles.length > SECOND_LOOK_FILES) {
    return first;
  }
  const second = await runOnce(check, quiet, [...failedFiles, '--maxWorkers=1']);
  const seconds = first.seconds + second.seconds;
  // A skip that does not say why stays one, and so does an error outside of the files that ran again.
  if (!second.ok || first.unexplained.length > 0 || hasErrorElsewhere(first.output, failedFiles)) {
    return { ...first, seconds, output: `${first.output}\n\nOnce more, alone:\n${second.output}` };
  }
  return {
    ...first,
    seconds,
    ok: true,
    passed: first.passed + first.failed,
    failed: 0,
    failures: [],
    unsteady: first.failures,
    output: '',
  };
}

/** Whether vitest caught an error outside of tests, such as an unhandled rejection, and not while one of `files` ran. */
function hasErrorElsewhere(output, files) {
  const caught = Number(/Vitest caught (\d+) unhandled error/.exec(output)?.[1] ?? 0);
  const origins = [...output.matchAll(/This error originated in "([^"]+)" test file/g)].map(([, file]) =>
    join(root, file),
  );
  return origins.length < caught || origins.some((file) => !files.includes(file));
}

/** Runs one check, or those of its files. With `quiet` its output is kept for the case that it fails. */
async function runOnce(check, quiet, files) {
  const report = join(scratch, `${check.name}.jsonl`);
  rmSync(report, { force: true });
  const args = check.project
    ? [
        bin('vitest/vitest.mjs'),
        'run',
        `--project=${check.project}`,
        `--reporter=${quiet ? 'dot' : 'default'}`,
        `--reporter=${join(root, 'scripts', 'check-reporter.mjs')}`,
        ...files,
      ]
    : check.args;
  const started = performance.now();
  if (check.built) buildIfChanged();
  const env = { ...(quiet ? plain : process.env), EVENKEEL_CHECK_REPORT: report };
  const child = quiet
    ? spawn(process.execPath, args, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] })
    : spawn(process.execPath, args, { cwd: root, env, stdio: 'inherit' });
  let output = '';
  let heardAt = performance.now();
  const hear = (chunk) => {
    output += chunk;
    heardAt = performance.now();
  };
  child.stdout?.on('data', hear);
  child.stderr?.on('data', hear);
  let hung = false;
  const watch = setInterval(() => {
    if (performance.now() - Math.max(heardAt, lastWritten(report)) < SILENCE_MS) return;
    hung = true;
    child.kill('SIGKILL');
  }, 5_000);
  const code = await new Promise((resolve) => {
    child.on('error', (error) => {
      output += error.message;
      resolve(1);
    });
    child.on('close', resolve);
  });
  clearInterval(watch);
  if (hung) output += `\n${check.name} reported nothing for ${SILENCE_MS / 60_000} minutes and was ended\n`;
  const seconds = (performance.now() - started) / 1000;
  const result = { ...check, unsteady: [], seconds, output, ...totals(check, code === 0, report) };
  return { ...result, ok: code === 0 && result.unexplained.length === 0 };
}

/** When a file was written last, on the clock of `performance.now()`. 0 if there is none yet. */
function lastWritten(file) {
  const { mtimeMs } = statSync(file, { throwIfNoEntry: false }) ?? { mtimeMs: 0 };
  return mtimeMs - performance.timeOrigin;
}

/** What to count for a check. */
function totals(check, ok, report) {
  const counted = readReport(check.project && existsSync(report) ? readFileSync(report, 'utf8') : '', root);
  if (!check.project) return { ...counted, passed: ok ? 1 : 0, failed: ok ? 0 : 1 };
  return { ...counted, failed: Math.max(counted.failed, ok ? 0 : 1) };
}

/** Names of tests, those under one heading in one line. */
function groupsOf(cases) {
  const groups = new Map();
  for (const { titles, fullName } of cases) {
    const heading = titles.join(' ') || fullName;
    groups.set(heading, [...(groups.get(heading) ?? []), fullName]);
  }
  return [...groups].map(([heading, names]) => (names.length === 1 ? names[0] : `${heading} (${names.length} tests)`));
}

function printResult(result, quiet) {
  const { name, ok, seconds, passed, failed, skipped, unexplained, notJudged, failures, unsteady, project, output } =
    result;
  const count = project || passed + failed > 1 ? `  ${passed} passed${failed > 0 ? `, ${failed} failed` : ''}` : '';
  const left = skipped.length > 0 ? `, ${skipped.length} not run` : '';
  console.log(
    `${ok ? 'ok    ' : 'FAILED'}  ${name.padEnd(14)} ${`${seconds.toFixed(1)} s`.padStart(8)}${count}${left}`,
  );
  // First of all: a log may be cut.
  for (const line of failures) console.log(`          failed: ${line}`);
  for (const line of unsteady) console.log(`          unsteady, failed once and passed alone: ${line}`);
  for (const line of groupsOf(skipped)) console.log(`          not run: ${line}`);
  for (const { fullName } of unexplained) console.log(`          not run, and does not say why: ${fullName}`);
  for (const line of notJudged) console.log(`          not judged, the machine is busy: ${line}`);
  if (!ok && quiet) console.log(`${output.trimEnd()}\n`);
}

const given = process.argv.slice(2);
const isAll = given.includes(ALL);
const wanted = given.filter((name) => name !== ALL);
const unknown = wanted.filter((name) => !checks.some((check) => check.name === name));
if (unknown.length > 0) {
  console.error(`No check is called ${unknown.join(', ')}. There are: ${checks.map(({ name }) => name).join(', ')}`);
  process.exit(2);
}
const quiet = wanted.length === 0;
const isMeant = (check) => (quiet ? isAll || !check.slow : wanted.includes(check.name));
let passed = 0;
let failed = 0;
try {
  for (const check of checks) {
    if (!isMeant(check)) continue;
    const result = await run(check, quiet);
    printResult(result, quiet);
    passed += result.passed;
    failed += result.failed;
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
const left = quiet ? checks.filter((check) => !isMeant(check)).map(({ name }) => name) : [];
if (left.length > 0) console.log(`not run: ${left.join(', ')}, with real servers; npm test -- --all runs them too`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
