import type { IncomingMessage } from 'node:http';

/** Why a page is not served. */
export interface PageRefusal {
  readonly status: 403 | 405;
  readonly text: string;
}

/**
 * Returns why a request for a page of this process is refused: its host name is not one of `hosts`, or it is not a GET. Undefined if the
 * page may be served.
 *
 * @param hosts Names in lower case by which pages may be requested, in addition to IP addresses and `localhost`.
 */
export function refusalOf(request: IncomingMessage, hosts: ReadonlySet<string>): PageRefusal | undefined {
  // The host of a request is in the header `:authority` with HTTP/2, and in `host` with HTTP/1.
  if (!isAllowedHost(request.headers.host ?? (request.headers[':authority'] as string | undefined), hosts)) {
    return { status: 403, text: 'this host name is not allowed' };
  }
  return request.method === 'GET' || request.method === 'HEAD' ? undefined : { status: 405, text: 'only GET' };
}

/**
 * Whether a page may be requested with this Host header. Any site can make its own name resolve to this address (DNS rebinding), but an IP
 * address in the header is what the browser connected to.
 */
function isAllowedHost(header: string | undefined, hosts: ReadonlySet<string>): boolean {
  if (header === undefined) return false;
  const name = header.replace(/:\d+$/, '').toLowerCase();
  if (name === 'localhost' || hosts.has(name)) return true;
  return /^\[[\da-f:.]+\]$/.test(name) || /^\d{1,3}(\.\d{1,3}){3}$/.test(name);
}
