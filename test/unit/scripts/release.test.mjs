import { expect, test } from 'vitest';
import { changelogProblems } from '../../../scripts/release/changelog.mjs';
import { homeProblems, manifestFields } from '../../../scripts/release/home.mjs';

const home = {
  repository: 'https://github.com/owner/evenkeel',
  homepage: 'https://owner.github.io/evenkeel/',
  bugs: 'https://github.com/owner/evenkeel/issues',
  author: 'Owner',
  security: 'https://github.com/owner/evenkeel/security/advisories/new',
};

test('a version is released if its section is the newest, has a date, and is not empty', () => {
  const text = '# Changelog\n\n## 1.1.0 (2027-01-31)\n\n- a\n\n## 1.0.0 (2027-01-01)\n\n- b\n';
  expect(changelogProblems(text, '1.1.0')).toEqual([]);
  expect(changelogProblems(text, '1.0.0')).toEqual(['1.0.0 is not the newest section of CHANGELOG.md']);
  expect(changelogProblems(text, '1.2.0')).toEqual(['CHANGELOG.md has no section "## 1.2.0"']);
  expect(changelogProblems(text.replace('2027-01-31', 'unreleased'), '1.1.0')).toHaveLength(1);
  expect(changelogProblems(text.replace('- a', ''), '1.1.0')).toEqual(['the section 1.1.0 of CHANGELOG.md is empty']);
});

test("nothing is published while a line about the project's home is empty", () => {
  expect(homeProblems(home)).toEqual([]);
  for (const name of Object.keys(home)) expect(homeProblems({ ...home, [name]: '' })).toHaveLength(1);
  expect(homeProblems({ ...home, repository: 'git@github.com:owner/evenkeel.git' })).toHaveLength(1);
});

test("package.json names the project's home as far as it is known", () => {
  expect(manifestFields(home)).toEqual({
    author: 'Owner',
    homepage: home.homepage,
    repository: { type: 'git', url: 'git+https://github.com/owner/evenkeel.git' },
    bugs: { url: home.bugs },
  });
  expect(manifestFields({ ...home, repository: '', homepage: '', bugs: '', author: '' })).toEqual({});
});
