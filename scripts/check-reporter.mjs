/**
 * A reporter for vitest that appends one line of JSON per event to a file, at once: `check.mjs` counts from it, and sees what still
 * ran when a check stops making progress.
 *
 * Lines: `{ event: 'start' | 'end', file }`, and per test `{ event: 'test', file, titles, fullName, status, meta, error }`.
 */
import { appendFileSync } from 'node:fs';
import { relative } from 'node:path';

export default class CheckReporter {
  /** The file to append to: named by the environment, since vitest gives options only to reporters of its configuration. */
  #output = /** @type {string} */ (process.env.EVENKEEL_CHECK_REPORT);

  #write(line) {
    appendFileSync(this.#output, `${JSON.stringify(line)}\n`);
  }

  onTestModuleStart({ moduleId }) {
    this.#write({ event: 'start', file: moduleId });
  }

  onTestCaseResult(test) {
    const { state, errors } = test.result();
    const titles = [];
    for (let suite = test.parent; suite.type === 'suite'; suite = suite.parent) titles.unshift(suite.name);
    const { fullName, module } = test;
    const [error] = errors ?? [];
    this.#write({
      event: 'test',
      file: module.moduleId,
      titles,
      fullName: fullName.replaceAll(' > ', ' '),
      status: state,
      meta: test.meta(),
      error: error?.message,
    });
  }

  onTestModuleEnd(module) {
    const failed = module.state() === 'failed';
    // Errors outside of tests: the file does not load, or a hook failed.
    const errors = failed ? [module, ...module.children.allSuites()].flatMap((part) => part.errors()) : [];
    this.#write({ event: 'end', file: module.moduleId, failed, error: errors[0]?.message });
  }
}

/** A test that does not run has a title that says why (test/support/title-of.ts), or fails the check. */
const SAYS_WHY = /\((skipped: |not run, )|is not installed/;

/** What those lines amount to. A file that does not load, or that had not ended yet, counts as one failure. @param {string} text @param {string} root */
export function readReport(text, root) {
  const lines = text.split('\n').filter((line) => line !== '');
  const events = lines.map((line) => JSON.parse(line));
  const tests = events.filter(({ event }) => event === 'test');
  const ends = new Map(events.filter(({ event }) => event === 'end').map((end) => [end.file, end]));
  const running = events.filter(({ event, file }) => event === 'start' && !ends.has(file)).map(({ file }) => file);
  const skipped = tests.filter(({ status }) => status === 'skipped');
  const unexplained = skipped.filter(({ fullName, meta }) => !SAYS_WHY.test(fullName) && !meta.notJudged?.length);
  const failedTests = tests.filter(({ status }) => status === 'failed');
  const brokenFiles = [...ends.values()].filter(({ failed, error }) => failed && error !== undefined);
  const failures = [
    ...failedTests.map(({ file, fullName, error }) => `${relative(root, file)} > ${fullName}: ${firstLine(error)}`),
    ...brokenFiles.map(({ file, error }) => `${relative(root, file)}: ${firstLine(error)}`),
    ...running.map((file) => `${relative(root, file)}: did not end`),
  ];
  return {
    passed: tests.filter(({ status }) => status === 'passed').length,
    failed: failures.length + unexplained.length,
    failures,
    failedFiles: [...new Set([...failedTests, ...brokenFiles].map(({ file }) => file)), ...running],
    skipped,
    unexplained,
    // What a test says that this machine, busy as it was, could not show.
    notJudged: tests.flatMap(({ fullName, meta }) => (meta.notJudged ?? []).map((what) => `${fullName}: ${what}`)),
  };
}

const firstLine = (text) => (text ?? '').split('\n', 1)[0];
