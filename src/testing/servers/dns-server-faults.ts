import type { DnsRcode } from './dns-server-wire.js';

/** What can go wrong with a query. */
export type DnsFault =
  /** Answers with this code and no records. `NODATA` is a name without records of the asked type. */
  | { readonly kind: 'rcode'; readonly rcode: Exclude<DnsRcode, 'NOERROR'> | 'NODATA' }
  /** Takes the query and never answers. */
  | { readonly kind: 'silent' }
  /** Answers rightly, `delayMs` late. */
  | { readonly kind: 'slow'; readonly delayMs: number }
  /** Answers with bytes that are no DNS message behind the right id. */
  | { readonly kind: 'garbage' }
  /** Sets TC on every UDP answer, however small. */
  | { readonly kind: 'truncate' };

/** Which queries a fault hits. */
export interface DnsFaultScope {
  /** Absent: every name. */
  readonly name?: string;
  /** `A`, `AAAA`, `SRV` …; absent: every type. */
  readonly type?: string;
  /** How many queries it hits before it is gone. @defaultValue Infinity */
  readonly times?: number;
}
