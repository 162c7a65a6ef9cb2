/** What the changelog says of a version. */

/**
 * What is wrong with the section of a version, as lines of text; none if it can be released.
 * @param {string} changelog @param {string} version such as `1.2.0`
 */
export function changelogProblems(changelog, version) {
  const at = changelog.split(/^## /m).slice(1);
  const index = at.findIndex((section) => section.startsWith(`${version} `) || section.startsWith(`${version}\n`));
  if (index === -1) return [`CHANGELOG.md has no section "## ${version}"`];
  const section = at[index] ?? '';
  const [heading = ''] = section.split('\n', 1);
  const problems = [];
  if (!/^\S+ \(\d{4}-\d{2}-\d{2}\)$/.test(heading)) {
    problems.push(`the heading "## ${heading}" of CHANGELOG.md does not end with the date, such as (2027-01-31)`);
  }
  if (index !== 0) problems.push(`${version} is not the newest section of CHANGELOG.md`);
  if (section.slice(heading.length).trim() === '') problems.push(`the section ${version} of CHANGELOG.md is empty`);
  return problems;
}
