import { hash32 } from '../runtime/hash.js';

/**
 * The response header, or gRPC trailer, with which a server says that it has not begun the request, so that it may be sent to another
 * endpoint, whatever its method. The value is the server's `addressMark`.
 */
export const notBegunHeader = 'evenkeel-not-begun';

/** The marks computed so far, by address and port; a server has few. */
const known = new Map<string, string>();
const MAX_KNOWN = 256;

/**
 * Returns a text that identifies an address without revealing it. A client compares it with the address to which it is connected: a gateway
 * that passes on the response of a server behind it has itself begun the request, so its word must not count.
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
