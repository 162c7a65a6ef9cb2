import { hash32 } from '../runtime/hash.js';

/**
 * The response header, or gRPC trailer, with which a server says that it has not begun the request, so that it may be sent to another
 * endpoint, whatever its method. The value is the `connectionMark` of the connection on which the request came.
 */
export const notBegunHeader = 'evenkeel-not-begun';

/** The marks computed so far, by address and port; a server has few. */
const known = new Map<string, string>();
const MAX_KNOWN = 256;

/** Returns a text that identifies a server without revealing its address. Whoever knows the address can compute the text. */
export function addressMark(address: string, port: number): string {
  const text = `${address.startsWith('::ffff:') ? address.slice(7) : address}|${port}`;
  let mark = known.get(text);
  if (mark === undefined) {
    mark = [0, 1].map((seed) => (hash32(text, seed) >>> 0).toString(16).padStart(8, '0')).join('');
    if (known.size < MAX_KNOWN) known.set(text, mark);
  }
  return mark;
}

/**
 * Returns a text that identifies a TCP connection to a server. Only the two ends of a connection know the client's port: a server behind a
 * gateway sees the port of the gateway's connection to it, and not those of the connections to the gateway. So whatever such a server
 * writes into a header that the gateway passes on, the gateway's clients do not believe it.
 *
 * @param address The server's. @param port The server's.
 */
export function connectionMark(address: string, port: number, clientPort: number): string {
  return `${addressMark(address, port)}-${clientPort}`;
}
