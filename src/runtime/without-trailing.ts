/**
 * Removes all occurrences of `character` from the end of a text. A regular expression such as `/\/+$/` would take very long for a text
 * that consists of that character.
 */
export function withoutTrailing(text: string, character: string): string {
  let { length } = text;
  while (length > 0 && text[length - 1] === character) length--;
  return text.slice(0, length);
}
