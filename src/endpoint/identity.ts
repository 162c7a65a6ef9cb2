import { isDeepStrictEqual } from 'node:util';

/** By what one side shows who it is, and knows the other: options of `tls.connect`, and of a log-in. */
const NAMES = ['cert', 'key', 'ca', 'pfx', 'passphrase', 'crl', 'secureContext', 'user', 'password'] as const;

type Named = Readonly<Partial<Record<(typeof NAMES)[number], unknown>>>;

/**
 * Whether two answers of a function have the same certificates, keys, user and password. Their contents count: most functions
 * read files anew each time. What is no object is the same as anything: whoever opens a connection with it tells of that.
 */
export function isSameIdentity(before: object | undefined, now: object | undefined): boolean {
  if (before === now || typeof before !== 'object' || typeof now !== 'object') return true;
  if (before === null || now === null) return true;
  return NAMES.every((name) => isSame((before as Named)[name], (now as Named)[name]));
}

function isSame(before: unknown, now: unknown): boolean {
  if (before === now) return true;
  // The context of a key has an outside nobody can compare.
  return typeof before === typeof now && !isForeign(before) && isDeepStrictEqual(before, now);
}

function isForeign(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'context' in value;
}
