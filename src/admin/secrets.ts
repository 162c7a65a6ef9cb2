const NAMES = 'token|password|passwd|secret|api[-_]?key|access[-_]?key|authorization';

const patterns: readonly (readonly [RegExp, string])[] = [
  // Matches the password in a URL such as amqp://user:password@host. A password that was not encoded may contain slashes, spaces and `@`,
  // so everything from the colon to the last `@` before a space is hidden: hiding too much is better than showing a part of a password.
  [/\/\/[^\s/:]*:(?:(?!:\/\/)[^"'\n@]){1,200}@(?:(?:(?!:\/\/)[^"'\s@]){0,200}@)*/g, '//***@'],
  [/\/\/[^/\s@]+@/g, '//***@'],
  [/\b(bearer|basic)\s+[\w.~+/=-]+/gi, '$1 ***'],
  [new RegExp(`\\b(${NAMES})(["']?\\s*[=:]\\s*)"[^"\\n]*"`, 'gi'), '$1$2"***"'],
  [new RegExp(`\\b(${NAMES})(["']?\\s*[=:]\\s*)'[^'\\n]*'`, 'gi'), "$1$2'***'"],
  [new RegExp(`\\b(${NAMES})(["']?\\s*[=:]\\s*["']?)[^\\s"'&,;]+`, 'gi'), '$1$2***'],
];

/** Hides everything in `text` that looks like a credential, because error messages may quote what others sent. */
export function withoutSecrets(text: string): string {
  return patterns.reduce((masked, [pattern, replacement]) => masked.replace(pattern, replacement), text);
}
