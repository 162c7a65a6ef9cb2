/** A list of EndpointSlices with managed fields is nested 12 deep. */
const MAX_DEPTH = 64;

/** How many objects and arrays may still be made; one budget may serve several texts. */
export interface JsonBudget {
  containers: number;
}

/**
 * JSON.parse for what a stranger wrote. An object or array takes two characters of text and up to a hundred bytes of
 * memory, one that is nested more, so both are counted before anything is made. Throws SyntaxError.
 */
export function parseJson(text: string, budget: JsonBudget): unknown {
  budget.containers -= countContainers(text, budget.containers);
  return JSON.parse(text);
}

function countContainers(text: string, most: number): number {
  let depth = 0;
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = endOfString(text, at);
        break;
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

const QUOTE = 34;
const BACKSLASH = 92;
const OPEN_ARRAY = 91;
const CLOSE_ARRAY = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

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
