/** How deeply a JSON text from the API server may be nested. A list of EndpointSlices with managed fields is nested 12 deep. */
const MAX_DEPTH = 64;

/** Limit on distinct field names in a JSON text; labels and annotations add their own. Each new name costs a hundred times a known one. */
const MAX_NAMES = 5_000;
const LONG = 100_000;
/** For each hash of a field name, the number of the JSON text in which it was last seen, so that nothing has to be cleared. */
const met = new Int32Array(16_384);
let texts = 0;

/** How many more objects and arrays may be created from JSON; several texts may share a budget. */
export interface JsonBudget {
  containers: number;
}

/**
 * JSON.parse for untrusted text. Two characters of text can create an object or array of up to a hundred bytes, more if nested, and a field
 * name seen for the first time is slow: objects, arrays and new names are counted before anything is created. Throws SyntaxError.
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
        // A short JSON text, such as nearly every watch event, has no room for many new names.
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

/** Whether the string up to `end` is a field name not yet seen in this JSON text. Names with the same hash count as one. */
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

/** The closing quote of the string that starts at `start`; the end of the text if there is none. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let before = end - 1;
    while (text.charCodeAt(before) === BACKSLASH) before--;
    // A quote after an even number of backslashes is not escaped: these escape only backslashes.
    if ((end - before) % 2 === 1) return end;
  }
  return text.length;
}
