import { expect, test } from 'vitest';
import { changelogProblems, homeProblems } from '../../../scripts/release.mjs';

const home = {
  author: 'Owner',
  homepage: 'https://owner.github.io/evenkeel/',
  bugs: { url: 'https://github.com/owner/evenkeel/issues' },
  repository: { type: 'git', url: 'git+https://github.com/owner/evenkeel.git' },
};

test('a version is released if its section is the newest, has a date, and is not empty', () => {
  const text = '# Changelog\n\n## 1.1.0 (2027-01-31)\n\n- a\n\n## 1.0.0 (2027-01-01)\n\n- b\n';
  expect(changelogProblems(text, '1.1.0')).toEqual([]);
  expect(changelogProblems(text, '1.0.0')).toEqual(['1.0.0 is not the newest section of CHANGELOG.md']);
  expect(changelogProblems(text, '1.2.0')).toEqual(['CHANGELOG.md has no section "## 1.2.0"']);
  expect(changelogProblems(text.replace('2027-01-31', 'unreleased'), '1.1.0')).toHaveLength(1);
  expect(changelogProblems(text.replace('- a', ''), '1.1.0')).toEqual(['the section 1.1.0 of CHANGELOG.md is empty']);
});

test('nothing is published while package.json does not say where the project lives', () => {
  expect(homeProblems(home)).toEqual([]);
  for (const name of Object.keys(home)) expect(homeProblems({ ...home, [name]: undefined })).toHaveLength(1);
  const other = { type: 'git', url: 'git@github.com:owner/evenkeel.git' };
  expect(homeProblems({ ...home, repository: other })).toHaveLength(1);
});
