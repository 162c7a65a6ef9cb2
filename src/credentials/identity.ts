import { isDeepStrictEqual } from 'node:util';

/** The options of `tls.connect` and of a login with which the client identifies itself and checks the server. */
const NAMES = ['cert', 'key', 'ca', 'pfx', 'passphrase', 'crl', 'secureContext', 'user', 'password'] as const;

type Named = Readonly<Partial<Record<(typeof NAMES)[number], unknown>>>;

/**
 * Whether two results of an application's function have equal certificates, keys, users and passwords. Contents are compared, because most
 * functions read the same files again each time. A result that is not an object equals anything, because its error is reported when a
 * connection is opened.
 */
export function isSameIdentity(before: object | undefined, now: object | undefined): boolean {
  if (before === now || typeof before !== 'object' || typeof now !== 'object') return true;
  if (before === null || now === null) return true;
  return NAMES.every((name) => isSame((before as Named)[name], (now as Named)[name]));
}

function isSame(before: unknown, now: unknown): boolean {
  if (before === now) return true;
  // Two SecureContext objects cannot be compared by their contents, so they count as different.
  return typeof before === typeof now && !isForeign(before) && isDeepStrictEqual(before, now);
}

function isForeign(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'context' in value;
}
