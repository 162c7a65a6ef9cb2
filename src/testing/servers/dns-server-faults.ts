import type { DnsRcode } from './dns-server-wire.js';

/** What can go wrong with a query. */
export type DnsFault =
  /** Answers with this code and no records. `NODATA` is a name without records of the asked type. */
  | { readonly kind: 'rcode'; readonly rcode: Exclude<DnsRcode, 'NOERROR'> | 'NODATA' }
  /** Accepts the query and never answers. */
  | { readonly kind: 'silent' }
  /** Answers correctly, `delayMs` late. */
  | { readonly kind: 'slow'; readonly delayMs: number }
  /** Answers with the right id followed by bytes that are not a DNS message. */
  | { readonly kind: 'garbage' }
  /** Sets TC on every UDP answer, no matter how small. */
  | { readonly kind: 'truncate' };

/** Which queries a fault affects. */
export interface DnsFaultScope {
  /** The name that the fault affects; absent: every name. */
  readonly name?: string;
  /** The type of query that the fault affects: `A`, `AAAA`, `SRV` …; absent: every type. */
  readonly type?: string;
  /** How many queries the fault affects before it is removed. @defaultValue Infinity */
  readonly times?: number;
}
