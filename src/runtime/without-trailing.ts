/** A text without the `character`s at its end. An expression such as `/\/+$/` takes quadratic time for a text that is full of them. */
export function withoutTrailing(text: string, character: string): string {
  let { length } = text;
  while (length > 0 && text[length - 1] === character) length--;
  return text.slice(0, length);
}
