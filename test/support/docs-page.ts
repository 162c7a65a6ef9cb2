import { readFileSync } from 'node:fs';

/** The text of a file, by its path in the repository. */
export const textOf = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

/** The text under a heading of the second or third level, up to the next heading. */
export function sectionOf(page: string, heading: string): string {
  const section = page.split(/^###? /m).find((part) => part.startsWith(`${heading}\n`));
  if (section === undefined) throw new Error(`no heading is called ${heading}`);
  return section;
}

/** The rows of all tables of a text whose first cell starts with code, as lists of cells. */
export function tableRows(text: string): string[][] {
  return text
    .split('\n')
    .filter((line) => /^\| \[?`/.test(line))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
}
