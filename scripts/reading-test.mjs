/**
 * Draws lines and comments of the sources, to be read alone by somebody who does not know them: can they say what a line is about,
 * and which module it is from, and does each comment make sense without its code?
 *
 *   node scripts/reading-test.mjs                          60 lines and 60 comments, drawn with seed 1
 *   node scripts/reading-test.mjs --seed=7 --count=20      others
 *   node scripts/reading-test.mjs --where                  where each is from, for whoever judges the answers
 *   node scripts/reading-test.mjs --root=FOLDER            the sources of another checkout
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    count: { type: 'string', default: '60' },
    root: { type: 'string', default: dirname(dirname(fileURLToPath(import.meta.url))) },
    where: { type: 'boolean', default: false },
  },
});
const sources = join(values.root, 'src');
const count = Number(values.count);

/** @typedef {{ readonly where: string, readonly text: string }} Piece */

/** Statements that say something: no imports, no closing brackets, nothing of one word. */
const SAYS_SOMETHING = /^(?!import |export (?:\{|\*)|from ).*\w+\W+\w+\W+\w+/;

/** The lines of code and the comments of a file. @param {string} file @returns {{ lines: Piece[], comments: Piece[] }} */
function piecesOf(file) {
  const lines = [];
  const comments = [];
  /** @type {{ at: number, parts: string[] } | undefined} */
  let comment;
  const endComment = () => {
    const text = comment?.parts.join(' ').trim() ?? '';
    if (text !== '') comments.push({ where: `${file}:${comment?.at}`, text });
    comment = undefined;
  };
  for (const [index, whole] of readFileSync(join(sources, file), 'utf8').split('\n').entries()) {
    const line = whole.trim();
    const inComment = /^(?:\/\*\*?|\*\/?|\/\/)\s?(.*?)(?:\s?\*\/)?$/.exec(line);
    // A comment with code behind it, such as a name beside a number, is part of that line; a line of CSS may begin with an asterisk.
    const isComment = inComment && !/^\/\*.*\*\/\s*\S/.test(line) && (comment || !line.startsWith('*'));
    if (inComment && isComment) {
      if (line.startsWith('/*')) endComment();
      comment ??= { at: index + 1, parts: [] };
      comment.parts.push(inComment[1] ?? '');
      continue;
    }
    endComment();
    if (SAYS_SOMETHING.test(line)) lines.push({ where: `${file}:${index + 1}`, text: line });
  }
  return { lines, comments };
}

/** Random numbers in [0, 1) that a seed repeats (mulberry32). @param {number} seed */
function seeded(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const files = readdirSync(sources, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .sort();
const all = files.map(piecesOf);
const next = seeded(Number(values.seed));
for (const kind of /** @type {const} */ (['lines', 'comments'])) {
  const pieces = all.flatMap((each) => each[kind]);
  console.log(`\n${kind}\n`);
  for (let number = 1; number <= Math.min(count, pieces.length); number++) {
    const [piece] = pieces.splice(Math.floor(next() * pieces.length), 1);
    console.log(values.where ? `${number}. ${piece?.where}` : `${number}. ${piece?.text}`);
  }
}
