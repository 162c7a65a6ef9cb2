/** How deeply a JSON text from the API server may be nested. An ordinary list of EndpointSlices is nested 12 levels deep. */
const MAX_DEPTH = 64;

/**
 * How many different field names a JSON text may have; labels and annotations have names of their own. `JSON.parse` needs a hundred times
 * longer for a new name than for a known one.
 */
const MAX_NAMES = 5_000;
const LONG = 100_000;
/**
 * For each hash of a field name, the number of the JSON text in which the name was last seen. With numbers, nothing has to be cleared
 * between two texts.
 */
const met = new Int32Array(16_384);
let texts = 0;

/** How many more objects and arrays may be created from JSON. Several texts, such as the pages of a list, may share a budget. */
export interface JsonBudget {
  containers: number;
}

/**
 * Parses JSON from a source that is not trusted. Two characters of JSON can create an object or array that takes a hundred bytes of
 * memory, and each new field name takes time. Therefore objects, arrays and new names are counted before anything is created. Throws
 * SyntaxError if there are too many.
 */
export function parseJson(text: string, budget: JsonBudget): unknown {
  budget.containers -= countContainers(text, budget.containers);
  return JSON.parse(text);
}

function countContainers(text: string, most: number): number {
  let depth = 0;
  let count = 0;
  let names = 0;
  const isLong = text.length > LONG;
  texts++;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE: {
        const end = endOfString(text, at);
        // Field names are counted in long texts only: a short text, such as nearly every event of a watch, has no room for many.
        if (isLong && isNewName(text, at + 1, end)) names++;
        if (names > MAX_NAMES) throw new SyntaxError(`more than ${MAX_NAMES} names of fields`);
        at = end;
        break;
      }
      case OPEN_ARRAY:
      case OPEN_OBJECT:
        depth++;
        count++;
        if (depth > MAX_DEPTH) throw new SyntaxError(`nested deeper than ${MAX_DEPTH}`);
        if (count > most) throw new SyntaxError('too many objects and arrays');
        break;
      case CLOSE_ARRAY:
      case CLOSE_OBJECT:
        depth--;
        break;
    }
  }
  return count;
}

const SPACE = 32;
const QUOTE = 34;
const COLON = 58;
const BACKSLASH = 92;
const OPEN_ARRAY = 91;
const CLOSE_ARRAY = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/**
 * Whether the string between `start` and `end` is a field name that was not yet seen in this JSON text. Two names with the same hash
 * count as one.
 */
function isNewName(text: string, start: number, end: number): boolean {
  let next = end + 1;
  while (text.charCodeAt(next) <= SPACE) next++;
  if (text.charCodeAt(next) !== COLON) return false;
  let hash = 0;
  for (let at = start; at < end; at++) hash = (Math.imul(hash, 31) + text.charCodeAt(at)) | 0;
  const index = (hash ^ (hash >>> 14)) & (met.length - 1);
  if (met[index] === texts) return false;
  met[index] = texts;
  return true;
}

/** Finds the closing quote of the string that starts at `start`; returns the end of the text if there is none. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let before = end - 1;
    while (text.charCodeAt(before) === BACKSLASH) before--;
    // A quote after an even number of backslashes ends the string, because those backslashes only escape each other.
    if ((end - before) % 2 === 1) return end;
  }
  return text.length;
}
