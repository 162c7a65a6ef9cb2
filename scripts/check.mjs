/**
 * Runs the project's checks and sums them up.
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

const ALL = '--all';

/** Tests that report nothing for so long hang: more than the longest timeout of a test. */
const SILENCE_MS = 12 * 60_000;

const commands = [
  { name: 'format', args: biome('format', '.') },
  { name: 'lint', args: biome('lint', '.', '--error-on-warnings') },
  { name: 'imports', args: script('imports.mjs') },
  { name: 'types', args: tsc('tsconfig.json') },
  { name: 'examples', args: tsc('tsconfig.javascript.json'), isBuilt: true },
  { name: 'pages', args: tsc('tsconfig.page.json') },
  { name: 'docs-links', args: script('docs-links.mjs') },
];

/** Projects of vitest, which one run of it goes through. */
const projects = [
  { name: 'unit' },
  { name: 'contract' },
  { name: 'simulation' },
  // Their programs import the package by its name, hence from dist.
  { name: 'integration', isBuilt: true, isSlow: true },
  { name: 'playground', isBuilt: true, isSlow: true },
  { name: 'package', isSlow: true },
];

const given = process.argv.slice(2);
const isAll = given.includes(ALL);
const wanted = given.filter((name) => name !== ALL);
const names = [...commands, ...projects].map(({ name }) => name);
const unknown = wanted.filter((name) => !names.includes(name));
if (unknown.length > 0) {
  console.error(`No check is called ${unknown.join(', ')}. There are: ${names.join(', ')}`);
  process.exit(2);
}
const isQuiet = wanted.length === 0;
const isMeant = ({ name, isSlow = false }) => (isQuiet ? isAll || !isSlow : wanted.includes(name));

/** Output that is kept for later is kept without colours. */
const plain = { ...process.env, NO_COLOR: '1', FORCE_COLOR: undefined };

/** Runs a program of Node. Its output is kept for the case that it fails, or shown at once. `isHung` is asked every few seconds. */
async function run(args, env = {}, isHung = () => false) {
  const child = isQuiet
    ? spawn(process.execPath, args, { cwd: root, env: { ...plain, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
    : spawn(process.execPath, args, { cwd: root, env: { ...process.env, ...env }, stdio: 'inherit' });
  let output = '';
  const hear = (chunk) => {
    output += chunk;
  };
  child.stdout?.on('data', hear);
  child.stderr?.on('data', hear);
  const watch = setInterval(() => {
    if (!isHung()) return;
    output += `\nnothing was reported for ${SILENCE_MS / 60_000} minutes\n`;
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
  return { isOk: code === 0, output: output.trimEnd() };
}

const since = (started) => `${((performance.now() - started) / 1000).toFixed(1)} s`;
let passed = 0;
let failed = 0;

function print(isOk, name, details) {
  console.log(`${isOk ? 'ok    ' : 'FAILED'}  ${name.padEnd(14)} ${details}`.trimEnd());
}

async function runCommand({ name, args }) {
  const started = performance.now();
  const { isOk, output } = await run(args);
  print(isOk, name, since(started).padStart(8));
  if (!isOk && output !== '') console.log(`${output}\n`);
  if (isOk) passed++;
  else failed++;
}

async function runTests(meant) {
  const report = join(scratch, 'report.jsonl');
  const started = performance.now();
  const lastHeard = () => {
    const { mtimeMs } = statSync(report, { throwIfNoEntry: false }) ?? { mtimeMs: 0 };
    return Math.max(started, mtimeMs - performance.timeOrigin);
  };
  const { isOk, output } = await run(
    [
      bin('vitest/vitest.mjs'),
      'run',
      ...meant.map(({ name }) => `--project=${name}`),
      `--reporter=${isQuiet ? 'dot' : 'default'}`,
      `--reporter=${join(root, 'scripts', 'check-reporter.mjs')}`,
    ],
    { EVENKEEL_CHECK_REPORT: report },
    () => performance.now() - lastHeard() > SILENCE_MS,
  );
  const text = existsSync(report) ? readFileSync(report, 'utf8') : '';
  const results = readReport(
    text,
    root,
    meant.map(({ name }) => name),
  );
  let wrong = 0;
  for (const { project, passed: good, failures, flaky, notRun } of results) {
    const isGood = failures.length === 0 && good + notRun.length > 0;
    const counts = [
      `${good} passed`,
      failures.length > 0 && `${failures.length} failed`,
      notRun.length > 0 && 'some not run',
    ];
    print(isGood, project, counts.filter(Boolean).join(', '));
    // First of all: a log may be cut.
    for (const line of failures) console.log(`          failed: ${line}`);
    for (const line of flaky) console.log(`          flaky, passed at its second try: ${line}`);
    for (const line of notRun) console.log(`          not run: ${line}`);
    passed += good;
    wrong += isGood ? 0 : Math.max(failures.length, 1);
  }
  // Vitest also fails for an error outside of tests, such as a rejection that nobody handles.
  failed += isOk ? wrong : Math.max(wrong, 1);
  print(isOk, 'tests', since(started).padStart(8));
  if (!isOk && isQuiet) console.log(`${output}\n`);
}

function build() {
  const { failed: isBroken, output } = buildIfChanged();
  if (!isBroken) return true;
  print(false, 'build', 'no check that needs it can run');
  console.log(`${output}\n`);
  failed++;
  return false;
}

try {
  const meant = [...commands, ...projects].filter(isMeant);
  const meantProjects = projects.filter(isMeant);
  if (!meant.some(({ isBuilt = false }) => isBuilt) || build()) {
    for (const command of commands.filter(isMeant)) await runCommand(command);
    if (meantProjects.length > 0) await runTests(meantProjects);
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
const left = isQuiet ? projects.filter((project) => !isMeant(project)).map(({ name }) => name) : [];
if (left.length > 0) console.log(`not run: ${left.join(', ')}, with real servers; npm test -- --all runs them too`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
