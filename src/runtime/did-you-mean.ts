/** How many letters of a word may be wrong, as a share of its length: one letter of three, but none of two. */
const WRONG_SHARE = 1 / 3;
const MAX_WRONG = 3;

/**
 * Finds the word in `known` that is most similar to `word`; undefined if none is similar. Upper and lower case count as equal. Used for
 * error messages only.
 */
export function closestOf(word: string, known: readonly string[]): string | undefined {
  const limit = Math.min(MAX_WRONG, Math.floor(word.length * WRONG_SHARE));
  let closest: string | undefined;
  let fewest = limit + 1;
  for (const candidate of known) {
    // A word of a very different length cannot be similar. Skipping it here keeps the function fast even if `word` is very long.
    if (Math.abs(candidate.length - word.length) >= fewest) continue;
    const wrong = distance(word.toLowerCase(), candidate.toLowerCase());
    if (wrong >= fewest) continue;
    fewest = wrong;
    closest = candidate;
  }
  return closest;
}

/**
 * How many letters must be inserted, removed, replaced or swapped with their neighbor to turn `a` into `b`.
 * Source: Damerau, A technique for computer detection and correction of spelling errors, CACM 7(3), 1964, in the form that
 * changes no letter twice.
 */
function distance(a: string, b: string): number {
  let beforeLast: readonly number[] = [];
  let last: readonly number[] = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = at(last, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let wrong = Math.min(at(last, j) + 1, at(row, j - 1) + 1, replaced);
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (isSwapped) wrong = Math.min(wrong, at(beforeLast, j - 2) + 1);
      row.push(wrong);
    }
    beforeLast = last;
    last = row;
  }
  return at(last, b.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] as number;
}
