import { hash32 } from '../runtime/hash.js';

/**
 * The response header, or gRPC trailer, that says the server has not begun the request: it may be sent to another endpoint,
 * whatever its method. Its value names the address that says so.
 */
export const notBegunHeader = 'evenkeel-not-begun';

/** The marks of addresses computed so far, by address; a server has few. */
const known = new Map<string, string>();
const MAX_KNOWN = 256;

/**
 * A text that identifies an address without revealing it. A client compares it with the address it connected to: a gateway that passes on
 * such a response from a server behind it has begun the request itself, and is not believed.
 */
export function addressMark(address: string, port: number): string {
  const text = `${address.startsWith('::ffff:') ? address.slice(7) : address}|${port}`;
  let mark = known.get(text);
  if (mark === undefined) {
    mark = [0, 1].map((seed) => (hash32(text, seed) >>> 0).toString(16).padStart(8, '0')).join('');
    if (known.size < MAX_KNOWN) known.set(text, mark);
  }
  return mark;
}

/** The mark of a server that did not begin a request because others have less to do. */
export const busyMark = (mark: string): string => `${mark}; busy`;

/** The mark of a server that may refuse requests because others have less to do. */
export const refusingMark = (mark: string): string => `${mark}; may-refuse`;
