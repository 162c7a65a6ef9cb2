import type { DnsRcode } from './dns-server-wire.js';

/** What can go wrong with a DNS query. */
export type DnsFault =
  /** The server answers with this code and no records. `NODATA` means that the name has no records of the queried type. */
  | { readonly kind: 'rcode'; readonly rcode: Exclude<DnsRcode, 'NOERROR'> | 'NODATA' }
  /** The server accepts the query and never answers. */
  | { readonly kind: 'silent' }
  /** The server answers correctly, but `delayMs` late. */
  | { readonly kind: 'slow'; readonly delayMs: number }
  /** The server answers with the right id, followed by bytes that are not a DNS message. */
  | { readonly kind: 'garbage' }
  /** The server sets TC on every UDP answer, no matter how small the answer is. */
  | { readonly kind: 'truncate' };

/** Which queries a fault affects. */
export interface DnsFaultScope {
  /** The name that the fault affects; absent means every name. */
  readonly name?: string;
  /** The query type that the fault affects: `A`, `AAAA`, `SRV` …; absent means every type. */
  readonly type?: string;
  /** How many queries the fault affects before it is removed. @defaultValue Infinity */
  readonly times?: number;
}
