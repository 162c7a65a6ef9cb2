import { expect, test } from 'vitest';
import { readReport } from '../../../scripts/check-reporter.mjs';

const line = (event) => `${JSON.stringify({ project: 'unit', ...event })}\n`;
const passed = (file, fullName) => line({ event: 'test', file, titles: [], fullName, status: 'passed' });
const read = (text) => readReport(text, '/r', ['unit'])[0];

test('tests that were ended keep their results, and name the files that were still running', () => {
  const text =
    line({ event: 'start', file: '/r/a.test.ts' }) +
    line({ event: 'start', file: '/r/b.test.ts' }) +
    passed('/r/a.test.ts', 'one') +
    line({ event: 'end', file: '/r/a.test.ts', failed: false }) +
    passed('/r/b.test.ts', 'two');
  expect(read(text)).toMatchObject({ passed: 2, failures: ['b.test.ts: did not end'] });
});

test('a file that does not load and a test that is skipped without a reason are failures', () => {
  const skip = { event: 'test', file: '/r/a.test.ts', titles: [], status: 'skipped' };
  const text =
    line({ ...skip, fullName: 'x' }) +
    line({ ...skip, fullName: 'y (skipped: no MariaDB)' }) +
    line({ ...skip, fullName: 'z', note: 'this machine was too busy' }) +
    line({ event: 'end', file: '/r/c.test.ts', failed: true, error: 'Cannot find module\nat …' });
  expect(read(text)).toMatchObject({
    failures: ['c.test.ts: Cannot find module', 'x: does not run, and does not say why'],
    notRun: ['y (skipped: no MariaDB)', 'z (this machine was too busy)'],
  });
});

test('a test that passed at its second try counts as passed, and is named', () => {
  const text = line({ event: 'test', file: '/r/a.test.ts', titles: [], fullName: 'x', status: 'passed', flaky: true });
  expect(read(text)).toMatchObject({ passed: 1, failures: [], flaky: ['a.test.ts > x'] });
});

test('each project has its own count', () => {
  const text =
    passed('/r/a.test.ts', 'one') +
    line({ project: 'contract', event: 'test', file: '/r/b.test.ts', titles: [], fullName: 'two', status: 'failed' });
  expect(readReport(text, '/r', ['unit', 'contract'])).toMatchObject([
    { project: 'unit', passed: 1, failures: [] },
    { project: 'contract', passed: 0, failures: ['b.test.ts > two: '] },
  ]);
});

test('no report means that nothing passed', () => {
  expect(read('')).toMatchObject({ passed: 0, failures: [] });
});
