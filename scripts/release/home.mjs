/** Where the project lives: `home.json` is the one place that says it, and nothing is published while a line of it is empty. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * - `repository`: its address on GitHub, such as `https://github.com/owner/evenkeel`.
 * - `homepage`: the documentation.
 * - `bugs`: where issues are reported.
 * - `author`: a name, or `name <address>`.
 * - `security`: where vulnerabilities are reported in private.
 *
 * @typedef {{ repository: string, homepage: string, bugs: string, author: string, security: string }} Home
 */

/** @returns {Home} */
export function readHome() {
  return JSON.parse(readFileSync(join(import.meta.dirname, 'home.json'), 'utf8'));
}

/** What is wrong with it, as lines of text; none if it can be published. @param {Home} home */
export function homeProblems(home) {
  const problems = Object.entries(home)
    .filter(([, value]) => value === '')
    .map(([name]) => `scripts/release/home.json does not say ${name}`);
  if (home.repository !== '' && !/^https:\/\/github\.com\/[\w.-]+\/[\w.-]+$/.test(home.repository)) {
    problems.push('repository in scripts/release/home.json is not https://github.com/<owner>/<name>');
  }
  return problems;
}

/** The fields of the published package.json that follow from it. @param {Home} home */
export function manifestFields({ repository, homepage, bugs, author }) {
  return {
    ...(author !== '' && { author }),
    ...(homepage !== '' && { homepage }),
    ...(repository !== '' && { repository: { type: 'git', url: `git+${repository}.git` } }),
    ...(bugs !== '' && { bugs: { url: bugs } }),
  };
}
