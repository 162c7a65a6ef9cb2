const patterns: readonly (readonly [RegExp, string])[] = [
  // https://user:password@host
  [/\/\/[^/\s@]+@/g, '//***@'],
  [/\b(bearer|basic)\s+[\w.~+/=-]+/gi, '$1 ***'],
  [
    /\b(token|password|passwd|secret|api[-_]?key|access[-_]?key|authorization)(["']?\s*[=:]\s*["']?)[^\s"'&,;]+/gi,
    '$1$2***',
  ],
];

/** A text without anything that looks like a credential: error messages may quote what others sent. */
export function withoutSecrets(text: string): string {
  return patterns.reduce((masked, [pattern, replacement]) => masked.replace(pattern, replacement), text);
}
