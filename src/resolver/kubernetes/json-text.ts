/** A list of EndpointSlices with managed fields is nested 12 deep. */
const MAX_DEPTH = 64;

/** Different names of fields; labels and annotations have names of their own. Each new one costs a hundred times a known one. */
const MAX_NAMES = 5_000;
const LONG = 100_000;
/** Which hashes of names were met in which text: by its number, so that nothing has to be cleared. */
const met = new Int32Array(16_384);
let texts = 0;

/** How many objects and arrays may still be made; one budget may serve several texts. */
export interface JsonBudget {
  containers: number;
}

/**
 * JSON.parse for what a stranger wrote. An object or array takes two characters of text and up to a hundred bytes of
 * memory, one that is nested more, and a name of a field that is met for the first time takes long: all are counted before
 * anything is made. Throws SyntaxError.
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
        // In a short text, such as nearly every event of a watch, there is no room for many.
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

/** Whether the string up to `end` is the name of a field, and one not met in this text. Two with one hash count as one. */
function isNewName(text: string, start: number, end: number): boolean {
  let next = end + 1;
  while (text.charCodeAt(next) <= SPACE) next++;
  if (text.charCodeAt(next) !== COLON) return false;
  let hash = 0;
  for (let at = start; at < end; at++) hash = (Math.imul(hash, 31) + text.charCodeAt(at)) | 0;
  const place = (hash ^ (hash >>> 14)) & (met.length - 1);
  if (met[place] === texts) return false;
  met[place] = texts;
  return true;
}

/** The quote that ends the string which begins at `start`; the end of the text if none does. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let before = end - 1;
    while (text.charCodeAt(before) === BACKSLASH) before--;
    // An even number of backslashes escape each other.
    if ((end - before) % 2 === 1) return end;
  }
  return text.length;
}
