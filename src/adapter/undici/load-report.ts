import { loadReportFormatHeader } from '../kit/index.js';
import type { OwnOptions } from './request-options.js';

const TEXT = 'TEXT';

/** Makes a request ask its pod for a load report, unless its caller does. The headers are a copy and may be changed. */
export function askForReport(own: OwnOptions): void {
  if (own.upgrade || own.method === 'CONNECT') return;
  const headers: unknown = own.headers;
  if (headers === undefined || headers === null) own.headers = { 'endpoint-load-metrics-format': TEXT };
  else if (Array.isArray(headers)) {
    // Invalid headers are left for undici to refuse.
    if (headers.length % 2 !== 0) return;
    for (let index = 0; index < headers.length; index += 2) if (isName(headers[index])) return;
    headers.push(loadReportFormatHeader, TEXT);
  } else if (typeof headers === 'object' && !(Symbol.iterator in headers)) {
    const record = headers as Record<string, unknown>;
    for (const name in record) if (isName(name)) return;
    record[loadReportFormatHeader] = TEXT;
  }
}

function isName(name: unknown): boolean {
  if (typeof name !== 'string') return Buffer.isBuffer(name) && isName(name.toString('latin1'));
  return name.length === loadReportFormatHeader.length && name.toLowerCase() === loadReportFormatHeader;
}
