/**
 * A reporter for vitest that appends one line of JSON per event to a file, at once: `check.mjs` counts from it, and sees what still
 * ran when the tests stop making progress.
 *
 * Lines: `{ event: 'start' | 'end', project, file }`, and per test `{ event: 'test', project, file, titles, fullName, status, flaky, note, error }`.
 */
import { appendFileSync } from 'node:fs';
import { relative } from 'node:path';

export default class CheckReporter {
  /** The file to append to: named by the environment, since vitest gives options only to reporters of its configuration. */
  #output = /** @type {string} */ (process.env.EVENKEEL_CHECK_REPORT);

  #write(event, { moduleId, project }, more = {}) {
    appendFileSync(this.#output, `${JSON.stringify({ event, project: project.name, file: moduleId, ...more })}\n`);
  }

  onTestModuleStart(module) {
    this.#write('start', module);
  }

  onTestCaseResult(test) {
    const { state, errors, note } = test.result();
    const titles = [];
    for (let suite = test.parent; suite.type === 'suite'; suite = suite.parent) titles.unshift(suite.name);
    const fullName = test.fullName.replaceAll(' > ', ' ');
    const { flaky } = test.diagnostic() ?? {};
    this.#write('test', test.module, { titles, fullName, status: state, flaky, note, error: errors?.[0]?.message });
  }

  onTestModuleEnd(module) {
    const failed = module.state() === 'failed';
    // Errors outside of tests: the file does not load, or a hook failed.
    const errors = failed ? [module, ...module.children.allSuites()].flatMap((part) => part.errors()) : [];
    this.#write('end', module, { failed, error: errors[0]?.message });
  }
}

/** A test that does not run says why, in its title (test/support/title-of.ts) or as it skips, or fails the check. */
const SAYS_WHY = /\((skipped: |not run, )|is not installed/;

/**
 * What those lines amount to for each of these projects. A file that does not load, or that had not ended yet, counts as one failure.
 * @param {string} text @param {string} root @param {readonly string[]} projects
 */
export function readReport(text, root, projects) {
  const lines = text.split('\n').filter((line) => line !== '');
  const events = lines.map((line) => JSON.parse(line));
  return projects.map((project) => ({
    project,
    ...totals(
      events.filter((event) => event.project === project),
      root,
    ),
  }));
}

function totals(events, root) {
  const tests = events.filter(({ event }) => event === 'test');
  const ends = new Map(events.filter(({ event }) => event === 'end').map((end) => [end.file, end]));
  const running = events.filter(({ event, file }) => event === 'start' && !ends.has(file)).map(({ file }) => file);
  const skipped = tests.filter(({ status }) => status === 'skipped');
  const unexplained = skipped.filter(({ fullName, note }) => !SAYS_WHY.test(fullName) && !note);
  const failedTests = tests.filter(({ status }) => status === 'failed');
  const brokenFiles = [...ends.values()].filter(({ failed, error }) => failed && error !== undefined);
  return {
    passed: tests.filter(({ status }) => status === 'passed').length,
    failures: [
      ...failedTests.map(({ file, fullName, error }) => `${relative(root, file)} > ${fullName}: ${firstLine(error)}`),
      ...brokenFiles.map(({ file, error }) => `${relative(root, file)}: ${firstLine(error)}`),
      ...running.map((file) => `${relative(root, file)}: did not end`),
      ...unexplained.map(({ fullName }) => `${fullName}: does not run, and does not say why`),
    ],
    flaky: tests.filter(({ flaky }) => flaky).map(({ file, fullName }) => `${relative(root, file)} > ${fullName}`),
    notRun: groupsOf(skipped.filter((test) => !unexplained.includes(test))),
  };
}

/** Names of tests, those under one heading in one line. */
function groupsOf(cases) {
  const groups = new Map();
  for (const { titles, fullName, note } of cases) {
    const heading = titles.join(' ') || fullName;
    groups.set(heading, [...(groups.get(heading) ?? []), note ? `${fullName} (${note})` : fullName]);
  }
  return [...groups].map(([heading, names]) => (names.length === 1 ? names[0] : `${heading} (${names.length} tests)`));
}

const firstLine = (text) => (text ?? '').split('\n', 1)[0];
