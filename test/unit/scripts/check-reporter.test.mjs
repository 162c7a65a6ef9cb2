import { expect, test } from 'vitest';
import { readReport } from '../../../scripts/check-reporter.mjs';

const line = (event) => `${JSON.stringify(event)}\n`;
const passed = (file, fullName) => line({ event: 'test', file, titles: [], fullName, status: 'passed', meta: {} });

test('a check that was ended keeps its results, and names the files that were still running', () => {
  const text =
    line({ event: 'start', file: '/r/a.test.ts' }) +
    line({ event: 'start', file: '/r/b.test.ts' }) +
    passed('/r/a.test.ts', 'one') +
    line({ event: 'end', file: '/r/a.test.ts', failed: false }) +
    passed('/r/b.test.ts', 'two');
  expect(readReport(text, '/r')).toMatchObject({
    passed: 2,
    failed: 1,
    failures: ['b.test.ts: did not end'],
    failedFiles: ['/r/b.test.ts'],
  });
});

test('a file that does not load and a test that is skipped without a reason are failures', () => {
  const skip = { event: 'test', file: '/r/a.test.ts', titles: [], status: 'skipped', meta: {} };
  const text =
    line({ ...skip, fullName: 'x' }) +
    line({ ...skip, fullName: 'y (skipped: no MariaDB)' }) +
    line({ event: 'end', file: '/r/c.test.ts', failed: true, error: 'Cannot find module\nat …' });
  const { failed, failures, unexplained, skipped } = readReport(text, '/r');
  expect(failures).toEqual(['c.test.ts: Cannot find module']);
  expect(unexplained.map(({ fullName }) => fullName)).toEqual(['x']);
  expect([skipped.length, failed]).toEqual([2, 2]);
});

test('no report means that nothing passed', () => {
  expect(readReport('', '/r')).toMatchObject({ passed: 0, failed: 0 });
});
