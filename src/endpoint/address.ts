import { isIP, isIPv6, SocketAddress } from 'node:net';

/**
 * Converts the text of an IP address to one canonical form (S4): lower-case, compressed IPv6, IPv4-mapped IPv6 as IPv4, IPv4 without
 * leading zeros. Anything else (a host name) is returned in lower case.
 */
export function normalizeAddress(address: string): string {
  const text = address.trim().toLowerCase();
  if (isIPv6(text)) {
    // The zone index after `%` is kept, because a link-local address is useless without the interface that the index names (RFC 4007).
    const zone = /%.*/.exec(address.trim())?.[0] ?? '';
    const canonical = new SocketAddress({ address: text, family: 'ipv6' }).address;
    const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(canonical);
    return mapped ? (mapped[1] as string) : canonical + zone;
  }
  if (isIP(text) === 0 && /^\d{1,3}(\.\d{1,3}){3}$/.test(text)) {
    // "010.000.000.001" usually means 10.0.0.1, and Go's parser for old Kubernetes objects reads it as decimal too.
    const decimal = text.split('.').map(Number).join('.');
    return isIP(decimal) === 4 ? decimal : text;
  }
  return text;
}

/** Returns `address:port`, with an IPv6 address in brackets. */
export function hostPort(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
