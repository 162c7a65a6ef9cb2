import { isDeepStrictEqual } from 'node:util';

/** The options of `tls.connect` and of a login by which the two sides identify each other. */
const NAMES = ['cert', 'key', 'ca', 'pfx', 'passphrase', 'crl', 'secureContext', 'user', 'password'] as const;

type Named = Readonly<Partial<Record<(typeof NAMES)[number], unknown>>>;

/**
 * Whether two results of a function have the same certificates, keys, user and password. Contents are compared, because most
 * functions read the files again each time. A result that is not an object equals anything: opening a connection reports it.
 */
export function isSameIdentity(before: object | undefined, now: object | undefined): boolean {
  if (before === now || typeof before !== 'object' || typeof now !== 'object') return true;
  if (before === null || now === null) return true;
  return NAMES.every((name) => isSame((before as Named)[name], (now as Named)[name]));
}

function isSame(before: unknown, now: unknown): boolean {
  if (before === now) return true;
  // The `context` of a SecureContext cannot be compared.
  return typeof before === typeof now && !isForeign(before) && isDeepStrictEqual(before, now);
}

function isForeign(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'context' in value;
}
