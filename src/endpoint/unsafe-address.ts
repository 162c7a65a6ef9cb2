import { isIP } from 'node:net';
import { optionError } from '../runtime/check.js';
import { checkedOption, type Option } from '../runtime/options.js';
import { normalizeAddress } from './address.js';

/**
 * A class of addresses that no pod has. A name or slice that points to one would send requests, with their credentials, to the caller's own
 * machine, to the cloud's metadata service (`link-local` as 169.254.169.254, or `metadata`), or nowhere. The API server refuses most such
 * endpoints too; DNS refuses none.
 */
export type UnsafeAddressClass = 'loopback' | 'link-local' | 'multicast' | 'unspecified' | 'metadata';

/** Every class of unsafe addresses, in the order in which messages list them. */
const unsafeAddressClasses: readonly UnsafeAddressClass[] = Object.freeze([
  'loopback',
  'link-local',
  'multicast',
  'unspecified',
  'metadata',
]);

/** Addresses of cloud services that machines use, for example to get credentials, and that are not link-local. */
const metadataAddresses: ReadonlySet<string> = new Set([
  // The metadata service of Alibaba Cloud
  '100.100.100.200',
  // The metadata service of Azure
  '168.63.129.16',
  // The metadata service of Oracle Cloud
  '192.0.0.192',
  // The metadata service of Google Cloud
  'fd20:ce::254',
  // The metadata service of Scaleway
  'fd00:42::42',
]);

/** The classes of unsafe addresses that a resolver may publish nevertheless. */
export type AllowAddresses = readonly UnsafeAddressClass[];

/**
 * Returns the unsafe class of an address; `undefined` for a host name and for an address that a pod may have. An IPv6 address that leads to
 * an IPv4 one (`::ffff:127.0.0.1`, `64:ff9b::7f00:1`, `2002:7f00:1::1`) counts as that IPv4 address.
 */
export function classifyAddress(address: string): UnsafeAddressClass | undefined {
  const text = normalizeAddress(address.replace(/%.*/s, ''));
  switch (isIP(text)) {
    case 4:
      return classifyIPv4(text);
    case 6:
      return classifyIPv6(text) ?? classifyEmbedded(text);
    default:
      return undefined;
  }
}

/**
 * Returns what `classifyAddress` does, for an address in its usual notation without a zone index. It takes a tenth of the time for the
 * ranges that nearly every pod is in: most IPv4 addresses, and IPv6 addresses in 2000::/3 and fc00::/7 apart from the exceptions in them.
 */
export function unsafeClassOf(address: string): UnsafeAddressClass | undefined {
  return mayBeUnsafe(address) ? classifyAddress(address) : undefined;
}

function mayBeUnsafe(address: string): boolean {
  if (address.includes(':')) {
    if (address.includes(':5efe:') || !/^([23][0-9a-f]{3}|f[cd][0-9a-f]{2}):/.test(address)) return true;
    return /^(2002|2001:0?|fd00:(ec2|42)|fd20:ce):/.test(address);
  }
  const first = Number.parseInt(address, 10);
  if (first === 100 || first === 168 || first === 192) return !address.startsWith('192.168.');
  return !(first >= 1 && first <= 223 && first !== 127 && first !== 169);
}

// Addresses are compared as text and not with net.BlockList, because a large Service has thousands of them, and this is ten times as fast.
function classifyIPv4(text: string): UnsafeAddressClass | undefined {
  const first = Number.parseInt(text, 10);
  if (first === 127) return 'loopback';
  if (first === 169 && text.startsWith('169.254.')) return 'link-local';
  if (first >= 224 && first <= 239) return 'multicast';
  if (metadataAddresses.has(text)) return 'metadata';
  // All of 0.0.0.0/8 is unsafe, because some Linux calls read 0.x as "this host". The broadcast address is no single host either.
  return first === 0 || text === '255.255.255.255' ? 'unspecified' : undefined;
}

/** Returns the unsafe class of an IPv6 address in canonical form, in which a group of four digits never starts with a zero. */
function classifyIPv6(text: string): UnsafeAddressClass | undefined {
  if (text === '::1') return 'loopback';
  if (text === '::') return 'unspecified';
  if (/^fe[89ab][0-9a-f]:/.test(text)) return 'link-local';
  if (/^ff[0-9a-f]{2}:/.test(text)) return 'multicast';
  // EC2 uses fd00:ec2::/32 for its local services, which hand out credentials of machines and pods.
  return metadataAddresses.has(text) || text.startsWith('fd00:ec2:') ? 'metadata' : undefined;
}

/** Returns the first unsafe class among the IPv4 addresses to which an IPv6 address may lead. */
function classifyEmbedded(text: string): UnsafeAddressClass | undefined {
  for (const embedded of embeddedIPv4(groupsOf(text))) {
    const unsafe = classifyIPv4(embedded);
    if (unsafe !== undefined) return unsafe;
  }
  return undefined;
}

/** Returns the eight groups of an IPv6 address in canonical form, which may end in an IPv4 address. */
function groupsOf(text: string): readonly number[] {
  const [head = '', tail] = text.split('::');
  const parse = (part: string): number[] =>
    part === ''
      ? []
      : part.split(':').flatMap((group) => {
          if (!group.includes('.')) return [Number.parseInt(group, 16)];
          const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number);
          return [(a << 8) | b, (c << 8) | d];
        });
  const [first, last] = [parse(head), parse(tail ?? '')];
  return [...first, ...Array.from({ length: 8 - first.length - last.length }, () => 0), ...last];
}

/** Returns every IPv4 address that this machine, or one on the way, may derive from an IPv6 address. */
function embeddedIPv4(groups: readonly number[]): readonly string[] {
  const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = groups;
  const found: string[] = [];
  const zeroes = (a | b | c | d) === 0;
  // IPv4-compatible addresses, and IPv4-mapped ones in both forms of SIIT (RFC 2765).
  if (zeroes && ((e === 0 && (f === 0 || f === 0xffff)) || (e === 0xffff && f === 0))) found.push(dotted(g, h));
  // NAT64 (RFC 6052), and its prefix for local use (RFC 8215), where the position of the IPv4 address depends on the prefix length.
  if (a === 0x64 && b === 0xff9b) {
    if (c !== 1) found.push(dotted(g, h));
    else found.push(...localNat64(d, e, f, g, h));
  }
  // 6to4 (RFC 3056).
  if (a === 0x2002) found.push(dotted(b, c));
  // Teredo (RFC 4380) contains two addresses: that of a server, and that of a client with inverted bits.
  if (a === 0x2001 && b === 0) found.push(dotted(c, d), dotted(g ^ 0xffff, h ^ 0xffff));
  // ISATAP (RFC 5214), under any prefix.
  if (f === 0x5efe && (e & 0xfcff) === 0) found.push(dotted(g, h));
  return found;
}

/**
 * Returns the IPv4 addresses at the positions for the prefix lengths 96, 48, 56 and 64. One that starts with 0 is dropped, because then the
 * prefix has another length.
 */
function localNat64(d: number, e: number, f: number, g: number, h: number): readonly string[] {
  if ((g & 255) !== 0 || h !== 0) return [dotted(g, h)];
  const [low, high] = [e & 255, f >> 8];
  const all = [dotted(g, h), dotted(d, (low << 8) | high), dotted(((d & 255) << 8) | low, f)];
  all.push(dotted((low << 8) | high, ((f & 255) << 8) | (g >> 8)));
  const likely = all.filter((text) => !text.startsWith('0.'));
  return likely.length === 0 ? ['0.0.0.0'] : likely;
}

function dotted(high: number, low: number): string {
  return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;
}

/** Items split by whether their addresses may be used. */
export interface SafeAddresses<T> {
  readonly allowed: readonly T[];
  readonly refused: readonly { readonly item: T; readonly address: string; readonly class: UnsafeAddressClass }[];
}

/** Splits `items` by their addresses: an unsafe address is refused unless `allowAddresses` names its class. */
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

/** Says in one sentence, for an observer or an error, which addresses were refused, why, and which option allows them. */
export function describeRefused(source: string, refused: SafeAddresses<unknown>['refused']): string {
  const [first] = refused;
  if (first === undefined) return '';
  const list = refused.slice(0, 3).map((entry) => `${entry.address} (${entry.class})`);
  if (refused.length > list.length) list.push(`${refused.length - list.length} more`);
  const classes = [...new Set(refused.map((entry) => entry.class))].map((name) => `'${name}'`).join(', ');
  return `${source}: refused ${list.join(', ')}, which no pod can have; to allow it, set allowAddresses: [${classes}]`;
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

export const allowAddressesOption: Option<AllowAddresses> = checkedOption<AllowAddresses>([], (_name, value) =>
  checkAllowAddresses(value),
);
