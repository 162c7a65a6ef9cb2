import { loadReportFormatHeader } from '../kit/index.js';
import type { OwnOptions } from './request-options.js';

const TEXT = 'TEXT';

/**
 * Makes a request ask its pod for a load report, unless its caller does. The headers are a copy and may be changed. Returns the
 * request's options.
 */
export function askForReport(own: OwnOptions): OwnOptions {
  if (own.upgrade || own.method === 'CONNECT') return own;
  const headers: unknown = own.headers;
  if (headers === undefined || headers === null) {
    // Not added to `own`: on Node 20, copies that got a property later make undici's reading of all options three times as slow.
    const asking: OwnOptions = { headers: null, ...own };
    asking.headers = { 'endpoint-load-metrics-format': TEXT };
    return asking;
  }
  if (Array.isArray(headers)) {
    // Invalid headers are left for undici to refuse.
    if (headers.length % 2 !== 0) return own;
    for (let index = 0; index < headers.length; index += 2) if (isName(headers[index])) return own;
    headers.push(loadReportFormatHeader, TEXT);
  } else if (typeof headers === 'object' && !(Symbol.iterator in headers)) {
    const record = headers as Record<string, unknown>;
    for (const name in record) if (isName(name)) return own;
    record[loadReportFormatHeader] = TEXT;
  }
  return own;
}

function isName(name: unknown): boolean {
  if (typeof name !== 'string') return Buffer.isBuffer(name) && isName(name.toString('latin1'));
  return name.length === loadReportFormatHeader.length && name.toLowerCase() === loadReportFormatHeader;
}
