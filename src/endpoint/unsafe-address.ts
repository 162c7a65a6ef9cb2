import { isIP } from 'node:net';
import { optionError } from '../runtime/check.js';
import { normalizeAddress } from './address.js';

/**
 * Addresses no pod has. A name or a slice that points there would send requests, with their credentials, to the caller's
 * own machine, to the metadata service of the cloud (169.254.169.254), or nowhere. The API server refuses such
 * endpoints too; DNS refuses nothing.
 */
export type UnsafeAddressClass = 'loopback' | 'link-local' | 'multicast' | 'unspecified';

/** Every class, in the order messages list them. */
const unsafeAddressClasses: readonly UnsafeAddressClass[] = Object.freeze([
  'loopback',
  'link-local',
  'multicast',
  'unspecified',
]);

/** What `allowAddresses` takes: the classes a resolver may publish although no pod lives there. */
export type AllowAddresses = readonly UnsafeAddressClass[];

/**
 * Which unsafe class an address belongs to; `undefined` for an address a pod may have, and for a host name.
 * An IPv4 address inside an IPv6 one (`::ffff:127.0.0.1`, `64:ff9b::7f00:1`) counts as the IPv4 address.
 */
export function classifyAddress(address: string): UnsafeAddressClass | undefined {
  const text = embeddedIPv4(normalizeAddress(address.replace(/%.*$/, '')));
  switch (isIP(text)) {
    case 4:
      return classifyIPv4(text);
    case 6:
      return classifyIPv6(text);
    default:
      return undefined;
  }
}

// By text, not by net.BlockList: a big Service has thousands of addresses, and this is ten times as fast.
function classifyIPv4(text: string): UnsafeAddressClass | undefined {
  const first = Number.parseInt(text, 10);
  if (first === 127) return 'loopback';
  if (first === 169 && text.startsWith('169.254.')) return 'link-local';
  if (first >= 224 && first <= 239) return 'multicast';
  // All of 0.0.0.0/8: Linux takes 0.x as "this host" in some calls. Broadcast reaches nobody in particular.
  return first === 0 || text === '255.255.255.255' ? 'unspecified' : undefined;
}

/** Takes the canonical text: a first group of four digits is not one of three with a zero in front. */
function classifyIPv6(text: string): UnsafeAddressClass | undefined {
  if (text === '::1') return 'loopback';
  if (text === '::') return 'unspecified';
  if (/^fe[89ab][0-9a-f]:/.test(text)) return 'link-local';
  return /^ff[0-9a-f]{2}:/.test(text) ? 'multicast' : undefined;
}

/** Addresses split by whether they may be used. */
export interface SafeAddresses<T> {
  readonly allowed: readonly T[];
  readonly refused: readonly { readonly item: T; readonly address: string; readonly class: UnsafeAddressClass }[];
}

/** Splits `items` by their address: unsafe ones are refused unless `allowAddresses` names their class. */
export function filterUnsafe<T>(
  items: readonly T[],
  addressOf: (item: T) => string,
  allowAddresses: AllowAddresses,
): SafeAddresses<T> {
  const allowed: T[] = [];
  const refused: { item: T; address: string; class: UnsafeAddressClass }[] = [];
  for (const item of items) {
    const address = addressOf(item);
    const unsafe = classifyAddress(address);
    if (unsafe === undefined || allowAddresses.includes(unsafe)) allowed.push(item);
    else refused.push({ item, address, class: unsafe });
  }
  return { allowed, refused };
}

/** One sentence for an observer or an error: what was refused, why, and the option that allows it. */
export function describeRefused(source: string, refused: SafeAddresses<unknown>['refused']): string {
  const [first] = refused;
  if (first === undefined) return '';
  const list = refused.slice(0, 3).map((entry) => `${entry.address} (${entry.class})`);
  if (refused.length > list.length) list.push(`${refused.length - list.length} more`);
  const classes = [...new Set(refused.map((entry) => entry.class))].map((name) => `'${name}'`).join(', ');
  return `${source} names ${list.join(', ')}, where no pod lives: refused; allowAddresses: [${classes}] would use it`;
}

/** Checks the `allowAddresses` option. Throws EVENKEEL_OPTION. @defaultValue [] */
export function checkAllowAddresses(value: unknown): AllowAddresses {
  if (value === undefined) return [];
  const expected = `a list of ${unsafeAddressClasses.map((name) => `'${name}'`).join(', ')}`;
  if (!Array.isArray(value)) throw optionError('allowAddresses', expected, value);
  for (const entry of value) {
    if (!unsafeAddressClasses.includes(entry)) throw optionError('allowAddresses', expected, entry);
  }
  return Object.freeze([...value]) as AllowAddresses;
}

// IPv4-compatible (::a.b.c.d, long deprecated) and NAT64 (64:ff9b::/96) addresses reach the IPv4 host inside.
function embeddedIPv4(address: string): string {
  const match = /^(?:64:ff9b)?::(?:([0-9a-f]{1,4}):([0-9a-f]{1,4})|(\d+\.\d+\.\d+\.\d+))$/.exec(address);
  if (match === null) return address;
  if (match[3] !== undefined) return match[3];
  const high = Number.parseInt(match[1] as string, 16);
  const low = Number.parseInt(match[2] as string, 16);
  return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;
}
